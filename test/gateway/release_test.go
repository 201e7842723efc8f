package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

const gatewayAPI = `apiVersion: gateway.networking.k8s.io/v1
kind: KIND
metadata: {name: web, labels: {team: shop}, annotations: {note: "of its owner"}}
spec:
  parentRefs: [{name: edge}]HOSTS
  rules: RULES
`

// pods has the workload of every release here.
const pods = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, name: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:1}]}
---
`

const app = pods + gatewayAPI + `---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: STEPS
      trafficRoutings: [{service: web, gracePeriodSeconds: 0, ROUTE}]
`

// shop is one release through one route.
type shop struct {
	*testing.T
	w        *world.World
	ns, kind string
	before   *unstructured.Unstructured
}

func aShop(t *testing.T, kind, rules, steps, route string) *shop {
	t.Helper()
	hosts := ""
	if kind == "TLSRoute" { // a TLSRoute routes by host names only
		hosts = "\n  hostnames: [web.example.com]"
	}
	return aShopOf(t, kind, strings.NewReplacer("HOSTS", hosts, "KIND", kind, "RULES", rules, "STEPS", steps, "ROUTE", route).Replace(app))
}

// aShopOf returns a release through an object in the manifests.
func aShopOf(t *testing.T, kind, manifests string) *shop {
	t.Helper()
	w := world.Shared(t)
	s := &shop{T: t, w: w, ns: w.Namespace(t), kind: strings.ToLower(kind)}
	w.Apply(t, s.ns, manifests)
	s.ready()
	return s
}

// ready waits until a release may begin.
func (s *shop) ready() {
	s.Helper()
	s.await(world.Healthy)
	s.adopted()
	s.before = s.route()
}

func (s *shop) adopted() {
	s.Helper()
	s.w.Available(s.T, s.ns, "web")
	s.w.AwaitObject(s.T, s.ns, "deployment", "web", "to be adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == "web"
	})
}

func (s *shop) await(goal world.Goal) *api.Rollout {
	s.Helper()
	return s.w.Await(s.T, s.ns, "web", goal)
}

func (s *shop) route() *unstructured.Unstructured {
	s.Helper()
	return s.w.Get(s.T, s.ns, s.kind, "web")
}

func (s *shop) release(image string) {
	s.Helper()
	s.patch("deployment", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"`+image+`"}]}}}}`)
}

func (s *shop) patch(kind, body string, subresource ...string) {
	s.Helper()
	if err := s.w.Patch(s.T, s.ns, kind, "web", body, subresource...); err != nil {
		s.Fatal(err)
	}
}

// wantRules checks the destinations of the route's rules: name, weight and number of matches of each.
func (s *shop) wantRules(want ...string) {
	s.Helper()
	var got []string
	rules, _, _ := unstructured.NestedSlice(s.route().Object, "spec", "rules")
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		var to []string
		refs, _ := rule["backendRefs"].([]any)
		for _, ref := range refs {
			ref, _ := ref.(map[string]any)
			to = append(to, fmt.Sprintf("%v %v", ref["name"], ref["weight"]))
		}
		matches, _ := json.Marshal(headersOf(rule))
		got = append(got, fmt.Sprintf("%s: %s", matches, strings.Join(to, ", ")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the rules (-want +got):\n%s", diff)
	}
}

// headersOf returns the headers in the matches of a rule.
func headersOf(rule map[string]any) []string {
	headers := []string{}
	matches, _ := rule["matches"].([]any)
	for _, match := range matches {
		match, _ := match.(map[string]any)
		list, _ := match["headers"].([]any)
		for _, header := range list {
			header, _ := header.(map[string]any)
			headers = append(headers, fmt.Sprintf("%v=%v", header["name"], header["value"]))
		}
	}
	return headers
}

// wantRestored checks that the route has exactly its owner's spec.
func (s *shop) wantRestored(edited func(*unstructured.Unstructured)) {
	s.Helper()
	want := s.before.DeepCopy()
	if edited != nil {
		edited(want)
	}
	got := s.route()
	owned := func(u *unstructured.Unstructured) map[string]any {
		return map[string]any{"spec": u.Object["spec"], "labels": u.GetLabels(), "annotations": u.GetAnnotations()}
	}
	if diff := cmp.Diff(owned(want), owned(got)); diff != "" {
		s.Errorf("the route (-before +after):\n%s", diff)
	}
	if service := s.w.Get(s.T, s.ns, "service", "web-canary"); service != nil {
		s.Error("the canary Service is left")
	}
}

// noteChanged makes the owner's edit of an object during its release.
func noteChanged(u *unstructured.Unstructured) {
	annotations := u.GetAnnotations()
	annotations["note"] = "changed meanwhile"
	u.SetAnnotations(annotations)
}

const (
	oneRule  = `[{backendRefs: [{name: web, port: 80, weight: 5}]}]`
	byWeight = `[{replicas: 50%, traffic: 20%}, {replicas: 50%, traffic: 60%}]`
)

func TestARouteOfTheGatewayAPIIsShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ref := "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: " + kind + ", name: web}]"
			if kind == "HTTPRoute" {
				ref = "gateway: {httpRouteName: web}"
			}
			s := aShop(t, kind, oneRule, byWeight, ref)
			s.release("web:2")
			s.await(world.PausedAt(1))
			s.wantRules("[]: web 80, web-canary 20")
			s.w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			s.wantRules("[]: web 40, web-canary 60")
			s.patch(s.kind, `{"metadata":{"annotations":{"note":"changed meanwhile"}}}`)
			s.w.Approve(t, s.ns, "web")
			s.await(world.Healthy)
			s.wantRestored(noteChanged)
		})
	}
}

// A route that redirects has no backends. A match of a path and a header keeps both. A step with weights removes all
// matches of the step before. The restored weight is the owner's.
func TestAnHTTPRouteIsRoutedByHeadersAndGivenBackAsItWas(t *testing.T) {
	t.Parallel()
	const rules = `[{matches: [{path: {value: /shop}}], backendRefs: [{name: web, port: 80, weight: 5}]},
    {matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]`
	const steps = `[{replicas: 50%, matches: [{path: {value: /shop/cart}, headers: [{name: user, value: beta}]}]}, {replicas: 50%, traffic: 0.5%}]`
	s := aShop(t, "HTTPRoute", rules, steps, "gateway: {httpRouteName: web}")
	s.release("web:2")
	s.await(world.PausedAt(1))
	s.wantRules(`["user=beta"]: web-canary 1`, "[]: web 5", "[]: ")
	path, _, _ := unstructured.NestedSlice(s.route().Object, "spec", "rules")
	if text, _ := json.Marshal(path[0]); !strings.Contains(string(text), `"/shop/cart"`) {
		t.Errorf("the canary's rule has lost its path: %s", text)
	}
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(2))
	s.wantRules("[]: web 995, web-canary 5", "[]: ")
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
}

// Each release shapes the rules of its own Service. The first one that ends leaves the other unchanged.
func TestTwoReleasesShareAnHTTPRoute(t *testing.T) {
	t.Parallel()
	const rules = `[{matches: [{path: {value: /api}}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: web, port: 80}]}]`
	s := aShop(t, "HTTPRoute", rules, byWeight, "gateway: {httpRouteName: web}")
	_, second, _ := strings.Cut(app, "\n---\n")
	deployment, _, _ := strings.Cut(second, "\n---\n")
	_, rolloutOf, _ := strings.Cut(second, "rules: RULES\n---\n")
	service, _, _ := strings.Cut(app, "\n---\n")
	manifests := strings.NewReplacer("name: web}", "name: api}", "app: web", "app: api", "service: web", "service: api", "STEPS", byWeight, "ROUTE", "gateway: {httpRouteName: web}").Replace(
		strings.Join([]string{service, deployment, rolloutOf}, "\n---\n"))
	s.w.Apply(t, s.ns, manifests)
	s.w.Available(t, s.ns, "api")
	s.w.AwaitObject(t, s.ns, "deployment", "api", "to be adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == "api"
	})
	s.release("web:2")
	s.await(world.PausedAt(1))
	if err := s.w.Patch(t, s.ns, "deployment", "api", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"api:2"}]}}}}`); err != nil {
		t.Fatal(err)
	}
	s.w.Await(t, s.ns, "api", world.PausedAt(1))
	s.wantRules("[]: api 80, api-canary 20", "[]: web 80, web-canary 20")
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRules("[]: api 80, api-canary 20", "[]: web 1")
	if err := s.w.Patch(t, s.ns, "deployment", "api", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`); err != nil {
		t.Fatal(err)
	}
	s.w.Await(t, s.ns, "api", world.Healthy)
	s.wantRestored(nil)
}

// A step goes on when every parent has accepted the written generation, and not before.
func TestAStepWaitsForTheGatewayToAcceptItsRoute(t *testing.T) {
	t.Parallel()
	s := aShop(t, "HTTPRoute", oneRule, byWeight, "gateway: {httpRouteName: web}")
	accept := func(generation int64, status metav1.ConditionStatus) {
		t.Helper()
		condition := fmt.Sprintf(`{"type":"Accepted","status":%q,"reason":"Told","message":"","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}`, status, generation)
		s.patch("httproute", `{"status":{"parents":[{"parentRef":{"name":"edge"},"controllerName":"example.com/edge","conditions":[`+condition+`]}]}}`, "status")
	}
	accept(s.before.GetGeneration(), metav1.ConditionTrue)
	s.release("web:2")
	s.await(func(r *api.Rollout) bool {
		return strings.Contains(r.Status.Message, "waiting for the gateway to accept HTTPRoute web")
	})
	s.wantRules("[]: web 80, web-canary 20")
	accept(s.route().GetGeneration(), metav1.ConditionFalse)
	s.await(func(r *api.Rollout) bool {
		return strings.Contains(r.Status.Message, "waiting for the gateway to accept HTTPRoute web")
	})
	accept(s.route().GetGeneration(), metav1.ConditionTrue)
	s.await(world.PausedAt(1))
}

// A step that the kind cannot express stalls the release before any of its objects exists. The status names the step,
// the kind and the remedy.
func TestAStepThatAKindCannotExpressChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, steps, strategy, says string }{
		"a connection has no headers": {"TCPRoute", `[{replicas: 50%, traffic: 20%}, {replicas: 50%, matches: [{headers: [{name: user, value: beta}]}]}]`, "",
			"TCPRoute web cannot carry out step 2: it takes no matches; use traffic in this step, which counts connections"},
		"a call has no path": {"GRPCRoute", `[{replicas: 50%, matches: [{path: {value: /cart}}]}]`, "",
			"GRPCRoute web cannot carry out step 1: matches[0]: it cannot route by the path; use traffic or headers in this step"},
		"one Service for both versions": {"HTTPRoute", byWeight, ", disableGenerateCanaryService: true", "HTTPRoute web cannot carry out step 1: it tells versions apart by their Services"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := "customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: " + c.kind + ", name: web}]" + c.strategy
			s := aShop(t, c.kind, oneRule, c.steps, ref)
			s.release("web:2")
			r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
			if !strings.Contains(r.Status.Message, c.says) {
				t.Errorf("it says %s", r.Status.Message)
			}
			if got := s.route(); got.GetResourceVersion() != s.before.GetResourceVersion() {
				t.Error("the route was written")
			}
			for _, left := range []struct{ kind, name string }{{"deployment", "web-canary"}, {"service", "web-canary"}} {
				if s.w.Get(t, s.ns, left.kind, left.name) != nil {
					t.Errorf("there is a %s %s", left.kind, left.name)
				}
			}
		})
	}
}

// A Gateway of another kind of routes would not carry out any routing. A later change of its listeners counts, and so
// does a parent of another kind.
func TestARouteOfAKindThatItsGatewayDoesNotServeIsRefused(t *testing.T) {
	t.Parallel()
	for mended, mend := range map[string]func(s *shop, serves func(kind string)){
		"its Gateway serves the kind": func(_ *shop, serves func(kind string)) { serves("TCPRoute") },
		"a mesh serves it": func(s *shop, _ func(kind string)) {
			s.patch(s.kind, `{"spec":{"parentRefs":[{"name":"edge"},{"group":"","kind":"Service","name":"web"}]}}`)
		},
	} {
		t.Run(mended, func(t *testing.T) {
			t.Parallel()
			refusedUntil(t, mend)
		})
	}
}

func refusedUntil(t *testing.T, mend func(s *shop, serves func(kind string))) {
	t.Helper()
	s := aShop(t, "TCPRoute", "[{backendRefs: [{name: web, port: 80}]}]", `[{replicas: 50%, traffic: 20%}, {replicas: 50%, traffic: 50%}]`,
		"customNetworkRefs: [{apiVersion: gateway.networking.k8s.io/v1, kind: TCPRoute, name: web}]")
	s.w.Apply(t, s.ns, s.gateway("TCP"))
	serves := func(kind string) {
		t.Helper()
		s.w.Do(t, "patch", "gateway", "edge", "-n", s.ns, "--subresource=status", "--type=merge", "-p",
			`{"status":{"listeners":[{"name":"web","attachedRoutes":0,"conditions":[],"supportedKinds":[{"group":"gateway.networking.k8s.io","kind":"`+kind+`"}]}]}}`)
	}
	serves("HTTPRoute")
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	says := fmt.Sprintf("TCPRoute web cannot carry out step 1: Gateway %[1]s/edge of class %[1]s (controller example.com/edge) serves no TCPRoute (its status.listeners list HTTPRoute)", s.ns)
	if !strings.Contains(r.Status.Message, says) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("there is a canary")
	}
	mend(s, serves)
	s.await(world.PausedAt(1))
}

// gateway returns a Gateway with one listener, and its class, whose name is the namespace's.
func (s *shop) gateway(protocol string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: %[1]s}
spec: {controllerName: example.com/edge}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: %[1]s, listeners: [{name: web, port: 80, protocol: %[2]s}]}
`, s.ns, protocol)
}

// A gateway may accept a route with a filter that it cannot carry out, and then refuse its requests. So the executor
// refuses a filter that the class does not support, before any object of the release exists. A later change of the
// class counts.
func TestAMirrorNeedsAGatewayThatCanCopyRequests(t *testing.T) {
	t.Parallel()
	s := aShop(t, "HTTPRoute", oneRule, `[{replicas: 50%, mirror: {traffic: 10%}}, {replicas: 50%, traffic: 20%}]`, "gateway: {httpRouteName: web}")
	s.w.Apply(t, s.ns, s.gateway("HTTP"))
	supports := func(features string) {
		t.Helper()
		s.w.Do(t, "patch", "gatewayclass", s.ns, "--subresource=status", "--type=merge", "-p", `{"status":{"supportedFeatures":[`+features+`]}}`)
	}
	supports(`{"name":"HTTPRoute"}`)
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	const says = "HTTPRoute web cannot carry out step 1: the GatewayClass of its Gateway does not support HTTPRouteRequestMirror"
	if !strings.Contains(r.Status.Message, says) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("there is a canary")
	}
	supports(`{"name":"HTTPRoute"},{"name":"HTTPRouteRequestMirror"},{"name":"HTTPRouteRequestPercentageMirror"}`)
	s.await(world.PausedAt(1))
	s.wantRules("[]: web 5")
	filters, _, _ := unstructured.NestedSlice(s.route().Object, "spec", "rules")
	if text, _ := json.Marshal(filters[0]); !strings.Contains(string(text), `"requestMirror":{"backendRef":{"group":"","kind":"Service","name":"web-canary","port":80},"percent":10}`) {
		t.Errorf("the rule is %s", text)
	}
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(2))
	s.wantRules("[]: web 80, web-canary 20")
	s.w.Approve(t, s.ns, "web")
	s.await(world.Healthy)
	s.wantRestored(nil)
}
