package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

// half is one of two releases that share a VirtualService: a Deployment, a Service and a Rollout with one name.
const half = `
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: NAME}, ports: [{port: 80, name: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: nginx, image: nginx, env: [{name: version, value: base}]}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: NAME}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: [{replicas: 50%, traffic: 50%}]
      trafficRoutings:
      - service: NAME
        gracePeriodSeconds: 0
        customNetworkRefs: [{apiVersion: networking.istio.io/v1beta1, kind: VirtualService, name: shared}]
`

// sharedRoute is a VirtualService that the releases share. Its manifest has placeholders for the parts that a release
// changes. resting and underWay have pairs of a placeholder and its text, for each release.
type sharedRoute struct {
	manifest          string
	resting, underWay map[string][]string
}

var twoRules = sharedRoute{
	manifest: `
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata: {name: shared, labels: {team: shop}, annotations: {owner: shop}}
spec:
  hosts: [shop.example.com]
  http:
  - match: [{uri: {prefix: /a}}]
    timeout: 5s
    route: ROUTE-A
  - route: ROUTE-B
`,
	resting: map[string][]string{"a": {"ROUTE-A", "[{destination: {host: a}}]"}, "b": {"ROUTE-B", "[{destination: {host: b}}]"}},
	underWay: map[string][]string{
		"a": {"ROUTE-A", "[{destination: {host: a}, weight: 50}, {destination: {host: a-canary}, weight: 50}]"},
		"b": {"ROUTE-B", "[{destination: {host: b}, weight: 50}, {destination: {host: b-canary}, weight: 50}]"},
	},
}

var oneRule = sharedRoute{
	manifest: `
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata: {name: shared}
spec:
  hosts: [shop.example.com]
  http:
  - route: [{destination: {host: a}, weight: WEIGHT-A}, {destination: {host: b}, weight: WEIGHT-B}CANARY-ACANARY-B]
`,
	resting: map[string][]string{"a": {"WEIGHT-A", "60", "CANARY-A", ""}, "b": {"WEIGHT-B", "40", "CANARY-B", ""}},
	underWay: map[string][]string{
		"a": {"WEIGHT-A", "30", "CANARY-A", ", {destination: {host: a-canary}, weight: 30}"},
		"b": {"WEIGHT-B", "20", "CANARY-B", ", {destination: {host: b-canary}, weight: 20}"},
	},
}

// with returns the manifest with some releases under way.
func (r sharedRoute) with(underWay map[string]bool) string {
	var pairs []string
	for _, name := range []string{"a", "b"} {
		if underWay[name] {
			pairs = append(pairs, r.underWay[name]...)
		} else {
			pairs = append(pairs, r.resting[name]...)
		}
	}
	return strings.NewReplacer(pairs...).Replace(r.manifest)
}

func TestReleasesThatShareARouteDoNotMeet(t *testing.T) {
	orders := []string{
		"start a, start b, end a, end b",
		"start a, start b, end b, end a",
		"start b, start a, end a, end b",
		"start b, start a, end b, end a",
		"start a, end a, start b, end b",
		"start a, start b, undo a, end b",
		"start a, start b, delete a, end b",
		"start b, start a, delete a, undo b",
	}
	for name, route := range map[string]sharedRoute{"two rules": twoRules, "one rule": oneRule} {
		for _, order := range orders {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				s := aShared(t, route)
				for move := range strings.SplitSeq(order, ", ") {
					s.move(t, move)
					s.wantSpec(t, move)
				}
				wantSame(t, s.before, s.w.Get(t, s.ns, "virtualservice", "shared"))
			})
		}
	}
}

// shared is a namespace with two releases that share a VirtualService.
type shared struct {
	w        *world.World
	ns       string
	route    sharedRoute
	before   *unstructured.Unstructured
	underWay map[string]bool
}

func aShared(t *testing.T, route sharedRoute) *shared {
	t.Helper()
	w := world.Shared(t)
	s := &shared{w: w, ns: w.Namespace(t), route: route, underWay: map[string]bool{}}
	w.Apply(t, s.ns, strings.ReplaceAll(half, "NAME", "a")+"---"+strings.ReplaceAll(half, "NAME", "b")+"---"+route.with(nil))
	for _, name := range []string{"a", "b"} {
		w.Await(t, s.ns, name, world.Healthy)
		w.Available(t, s.ns, name)
		awaitAdopted(t, w, s.ns, name, name)
	}
	s.before = w.Get(t, s.ns, "virtualservice", "shared")
	return s
}

// move makes one move, such as "start a", and waits for its end.
func (s *shared) move(t *testing.T, move string) {
	t.Helper()
	verb, name, _ := strings.Cut(move, " ")
	s.underWay[name] = verb == "start"
	patch := func(kind, body string, subresource ...string) {
		t.Helper()
		if err := s.w.Patch(t, s.ns, kind, name, body, subresource...); err != nil {
			t.Fatal(err)
		}
	}
	const template = `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx","env":[{"name":"version","value":"VERSION"}]}]}}}}`
	switch verb {
	case "start":
		patch("deployment", strings.Replace(template, "VERSION", "canary", 1))
		s.w.Await(t, s.ns, name, world.PausedAt(1))
	case "end":
		patch("rollout", approval, "status")
		s.w.Await(t, s.ns, name, world.Healthy)
	case "undo":
		patch("deployment", strings.Replace(template, "VERSION", "base", 1))
		s.w.Await(t, s.ns, name, world.Healthy)
	case "delete":
		s.w.Do(t, "-n", s.ns, "delete", "rollout", name, "--timeout=600s")
	}
}

// spec returns the spec that the VirtualService must have now.
func (s *shared) spec(t *testing.T) any {
	t.Helper()
	object, _ := parse(t, s.route.with(s.underWay)).(map[string]any)
	return object["spec"]
}

func (s *shared) wantSpec(t *testing.T, after string) {
	t.Helper()
	vs := s.w.Get(t, s.ns, "virtualservice", "shared")
	if diff := cmp.Diff(s.spec(t), parse(t, toJSON(t, vs.Object["spec"]))); diff != "" {
		t.Errorf("VirtualService after %s (-want +got):\n%s", after, diff)
	}
}

// awaitSpec waits until the VirtualService has that spec.
func (s *shared) awaitSpec(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	want := s.spec(t)
	return s.w.AwaitObject(t, s.ns, "virtualservice", "shared", toJSON(t, want), func(u *unstructured.Unstructured) bool {
		return cmp.Equal(want, parse(t, toJSON(t, u.Object["spec"])))
	})
}

// The owner of a route may change it during releases on it. The releases go on over the owner's change, and the change
// is there in the end.
func TestAnEditOfARouteDuringReleasesStays(t *testing.T) {
	edited := twoRules
	edited.manifest = strings.NewReplacer(
		"labels: {team: shop}", "labels: {team: shop, tier: web}",
		"hosts: [shop.example.com]", "hosts: [shop.example.com, www.example.com]",
		"timeout: 5s", "timeout: 7s",
		"  http:\n", "  http:\n  - match: [{uri: {exact: /health}}]\n    route: [{destination: {host: health}}]\n",
	).Replace(twoRules.manifest)
	for _, last := range []string{"end", "undo", "delete"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			s := aShared(t, twoRules)
			s.move(t, "start b")
			s.move(t, "start a")

			s.route = edited
			s.w.Apply(t, s.ns, edited.with(nil))
			s.awaitSpec(t)
			s.w.Do(t, "-n", s.ns, "label", "virtualservice", "shared", "shift=night")
			s.wantSpec(t, "a label was added")

			s.move(t, "end a")
			s.wantSpec(t, "end a")
			s.move(t, last+" b")
			s.wantSpec(t, last+" b")
			after := s.w.Get(t, s.ns, "virtualservice", "shared")
			if diff := cmp.Diff(map[string]string{"team": "shop", "tier": "web", "shift": "night"}, after.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if marks := marksOf(after.GetAnnotations()); len(marks) > 0 {
				t.Errorf("annotations left: %v", marks)
			}
			out, err := s.w.KubectlStdin(t.Context(), edited.with(nil), "apply", "-n", s.ns, "-f", "-")
			if err != nil || !strings.Contains(out, "unchanged") {
				t.Errorf("to apply their manifest again changes something: %s %v", out, err)
			}
		})
	}
}

// An edit of labels alone, as with kubectl edit, stays too, and moves no traffic.
func TestALabelOnARouteDuringAReleaseStays(t *testing.T) {
	t.Parallel()
	s := aShared(t, oneRule)
	s.move(t, "start a")
	s.w.Do(t, "-n", s.ns, "label", "virtualservice", "shared", "shift=night")
	s.w.Do(t, "-n", s.ns, "annotate", "virtualservice", "shared", "note=mine")
	s.move(t, "start b")
	s.wantSpec(t, "start b")
	s.move(t, "end b")
	s.move(t, "end a")
	s.before.SetLabels(map[string]string{"shift": "night"})
	annotations := s.before.GetAnnotations()
	annotations["note"] = "mine"
	s.before.SetAnnotations(annotations)
	wantSame(t, s.before, s.w.Get(t, s.ns, "virtualservice", "shared"))
}
