package scenario

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// chained is an application whose release refers to a TrafficRouting: a Deployment and a Rollout with one name.
const chained = `
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
      trafficRoutingRef: gray
      patchPodTemplateMetadata: {labels: {istio.service.tag: gray}}
      steps: [{replicas: 50%}]
`

const shopRoutes = `
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata: {name: shop, annotations: {owner: shop}}
spec:
  hosts: [shop]
  http: [{route: [{destination: {host: shop, subset: base}}]}]
---
apiVersion: networking.istio.io/v1beta1
kind: DestinationRule
metadata: {name: shop}
spec:
  host: shop
  subsets: [{name: base, labels: {app: shop}}]
`

const gray = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: TrafficRouting
metadata: {name: gray}
spec:
  objectRef:
  - service: shop
    gracePeriodSeconds: 0
    customNetworkRefs:
    - {apiVersion: networking.istio.io/v1beta1, kind: VirtualService, name: shop}
    - {apiVersion: networking.istio.io/v1beta1, kind: DestinationRule, name: shop}
  strategy: {weight: 20}
`

// grays is a namespace with a TrafficRouting and its routes.
type grays struct {
	w  *world.World
	ns string
	vs,
	rule *unstructured.Unstructured // before any routing
}

func aGray(t *testing.T, w *world.World, applications ...string) *grays {
	t.Helper()
	return aGrayOf(t, w, chained, applications...)
}

// aGrayOf creates applications with another manifest than chained.
func aGrayOf(t *testing.T, w *world.World, manifest string, applications ...string) *grays {
	t.Helper()
	g := &grays{w: w, ns: w.Namespace(t)}
	w.Apply(t, g.ns, shopRoutes)
	for _, name := range applications {
		w.Apply(t, g.ns, strings.ReplaceAll(manifest, "NAME", name))
		w.Available(t, g.ns, name)
		awaitAdopted(t, w, g.ns, name, name)
	}
	g.vs, g.rule = w.Get(t, g.ns, "virtualservice", "shop"), w.Get(t, g.ns, "destinationrule", "shop")
	return g
}

func (g *grays) start(t *testing.T, name string) {
	t.Helper()
	if err := g.w.Patch(t, g.ns, "deployment", name, version("canary")); err != nil {
		t.Fatal(err)
	}
}

// phase waits until the TrafficRouting is in a phase, and returns it.
func (g *grays) phase(t *testing.T, phase api.RoutingPhase) *unstructured.Unstructured {
	t.Helper()
	return g.w.AwaitObject(t, g.ns, "trafficrouting", "gray", string(phase), func(u *unstructured.Unstructured) bool {
		is, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return is == string(phase)
	})
}

// shares waits until the canary's share of the VirtualService has a value.
func (g *grays) shares(t *testing.T, canary int) {
	t.Helper()
	want := parse(t, strings.NewReplacer("CANARY", toJSON(t, canary), "STABLE", toJSON(t, 100-canary)).Replace(
		`[{destination: {host: shop, subset: base}, weight: STABLE}, {destination: {host: shop, subset: canary}, weight: CANARY}]`))
	g.w.AwaitObject(t, g.ns, "virtualservice", "shop", toJSON(t, want), func(u *unstructured.Unstructured) bool {
		http, _, _ := unstructured.NestedSlice(u.Object, "spec", "http")
		return len(http) == 1 && cmp.Equal(want, parse(t, toJSON(t, http[0].(map[string]any)["route"])))
	})
}

func (g *grays) wantRestored(t *testing.T) {
	t.Helper()
	wantSame(t, g.vs, g.w.Get(t, g.ns, "virtualservice", "shop"))
	wantSame(t, g.rule, g.w.Get(t, g.ns, "destinationrule", "shop"))
}

func (g *grays) wantUsers(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, f := range g.w.Get(t, g.ns, "trafficrouting", "gray").GetFinalizers() {
		if name, is := strings.CutPrefix(f, api.FinalizerProgressingPrefix); is {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Rollouts that ask for it (-want +got):\n%s", diff)
	}
}

func TestARolloutRoutesByItsTrafficRoutingFromItsFirstPodsToItsEnd(t *testing.T) {
	t.Parallel()
	const canaryOnly = "      patchPodTemplateMetadata: {labels: {istio.service.tag: gray}}\n"
	replaced := swap(t, inPlace(chained), canaryOnly, "")
	for style, c := range map[string]struct{ manifest, status string }{
		"canary style":     {chained, "canaryStatus"},
		"partition style":  {replaced, "canaryStatus"},
		"blue-green style": {swap(t, replaced, "    canary:\n", "    blueGreen:\n"), "blueGreenStatus"},
	} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			g := aGrayOf(t, world.Shared(t), c.manifest, "shop")
			g.w.Apply(t, g.ns, gray)
			g.phase(t, api.RoutingHealthy)
			g.w.Await(t, g.ns, "shop", world.Healthy)
			g.start(t, "shop")
			g.w.Await(t, g.ns, "shop", world.PausedAt(1))
			g.shares(t, 20)
			g.wantUsers(t, "shop")
			g.phase(t, api.RoutingProgressing)
			subsets, _, _ := unstructured.NestedSlice(g.w.Get(t, g.ns, "destinationrule", "shop").Object, "spec", "subsets")
			if diff := cmp.Diff(parse(t, `[{name: base, labels: {app: shop}}, {name: canary, labels: {istio.service.tag: gray}}]`), parse(t, toJSON(t, subsets))); diff != "" {
				t.Errorf("subsets (-want +got):\n%s", diff)
			}
			if err := g.w.Patch(t, g.ns, "rollout", "shop", `{"status":{"`+c.status+`":{"currentStepState":"StepReady"}}}`, "status"); err != nil {
				t.Fatal(err)
			}
			g.w.Await(t, g.ns, "shop", world.Healthy)
			g.phase(t, api.RoutingHealthy)
			g.wantUsers(t)
			g.wantRestored(t)
		})
	}
}

func TestAChangeOfATrafficRoutingIsAppliedWhileReleasesAskForIt(t *testing.T) {
	t.Parallel()
	g := aGray(t, world.Shared(t), "shop")
	g.w.Apply(t, g.ns, gray)
	g.start(t, "shop")
	g.w.Await(t, g.ns, "shop", world.PausedAt(1))
	g.shares(t, 20)
	g.w.Apply(t, g.ns, strings.Replace(gray, "weight: 20", "weight: 60", 1))
	g.shares(t, 60)
	g.w.Apply(t, g.ns, strings.Replace(gray, "strategy: {weight: 20}", "strategy: {}", 1))
	g.awaitMessage(t, "asked for by Rollout shop; The TrafficRouting is not valid: strategy asks for nothing: set weight or matches")
	g.w.Apply(t, g.ns, gray)
	g.shares(t, 20)

	edited := strings.Replace(shopRoutes, "hosts: [shop]", "hosts: [shop, www]", 1)
	g.w.Apply(t, g.ns, edited)
	g.shares(t, 20)
	if err := g.w.Patch(t, g.ns, "trafficrouting", "gray", `{"spec":{"objectRef":[{"service":"shop","gracePeriodSeconds":0,"customNetworkRefs":[
		{"apiVersion":"networking.istio.io/v1beta1","kind":"VirtualService","name":"shop"}]}]}}`); err != nil {
		t.Fatal(err)
	}
	g.w.AwaitObject(t, g.ns, "destinationrule", "shop", "to be as its owner wants it", func(u *unstructured.Unstructured) bool {
		subsets, _, _ := unstructured.NestedSlice(u.Object, "spec", "subsets")
		return len(subsets) == 1
	})
	g.w.Approve(t, g.ns, "shop")
	g.w.Await(t, g.ns, "shop", world.Healthy)
	hosts, _, _ := unstructured.NestedStringSlice(g.w.Get(t, g.ns, "virtualservice", "shop").Object, "spec", "hosts")
	if diff := cmp.Diff([]string{"shop", "www"}, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func (g *grays) awaitMessage(t *testing.T, want string) {
	t.Helper()
	g.w.AwaitObject(t, g.ns, "trafficrouting", "gray", want, func(u *unstructured.Unstructured) bool {
		is, _, _ := unstructured.NestedString(u.Object, "status", "message")
		return is == want
	})
}

func TestRolloutsShareATrafficRouting(t *testing.T) {
	t.Parallel()
	g := aGray(t, world.Shared(t), "shop", "stock")
	g.w.Apply(t, g.ns, gray)
	for _, name := range []string{"shop", "stock"} {
		g.start(t, name)
		g.w.Await(t, g.ns, name, world.PausedAt(1))
	}
	g.wantUsers(t, "shop", "stock")
	g.w.Approve(t, g.ns, "shop")
	g.w.Await(t, g.ns, "shop", world.Healthy)
	g.wantUsers(t, "stock")
	g.shares(t, 20)
	g.w.Approve(t, g.ns, "stock")
	g.w.Await(t, g.ns, "stock", world.Healthy)
	g.phase(t, api.RoutingHealthy)
	g.wantRestored(t)
}

// A TrafficRouting is released again after any end or interruption of the Rollout.
func TestATrafficRoutingIsFreed(t *testing.T) {
	for name, turn := range map[string]func(*testing.T, *grays){
		"by a rollback": func(t *testing.T, g *grays) {
			if err := g.w.Patch(t, g.ns, "deployment", "shop", version("base")); err != nil {
				t.Fatal(err)
			}
		},
		"by disabling": func(t *testing.T, g *grays) {
			if err := g.w.Patch(t, g.ns, "rollout", "shop", `{"spec":{"disabled":true}}`); err != nil {
				t.Fatal(err)
			}
		},
		"by deletion": func(t *testing.T, g *grays) { g.w.Do(t, "-n", g.ns, "delete", "rollout", "shop", "--timeout=600s") },
		"by another name": func(t *testing.T, g *grays) {
			if err := g.w.Patch(t, g.ns, "rollout", "shop", `{"spec":{"strategy":{"canary":{"trafficRoutingRef":"none"}}}}`); err != nil {
				t.Fatal(err)
			}
		},
		"by removal by force": func(t *testing.T, g *grays) {
			if err := g.w.Patch(t, g.ns, "rollout", "shop", `{"metadata":{"finalizers":null}}`); err != nil {
				t.Fatal(err)
			}
			g.w.Do(t, "-n", g.ns, "delete", "rollout", "shop", "--wait=false")
			_ = g.w.Patch(t, g.ns, "rollout", "shop", `{"metadata":{"finalizers":null}}`) // gone, unless the finalizer came back meanwhile
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := aGray(t, world.Shared(t), "shop")
			g.w.Apply(t, g.ns, gray)
			g.start(t, "shop")
			g.w.Await(t, g.ns, "shop", world.PausedAt(1))
			turn(t, g)
			g.phase(t, api.RoutingHealthy)
			g.wantUsers(t)
			g.wantRestored(t)
		})
	}
}

// broken is a transport to the API server that fails writes of one kind of object, as long as the test wants it.
type broken struct {
	next http.RoundTripper
	path string
	left *atomic.Int32
}

func (b broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, b.path) && b.left.Add(-1) >= 0 {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errors.New("the network is down")
	}
	return b.next.RoundTrip(r)
}

// One error of the API server during the restore of routes must not leave them unrestored for ever.
func TestATrafficRoutingThatIsDeletedDuringAReleaseIsGivenBackWhateverFails(t *testing.T) {
	t.Parallel()
	w := world.Bare(t, world.Options{})
	w.Begin(t, w.RunWatcher)
	var failures atomic.Int32
	config := w.As(api.DefaultExecutor)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return broken{next, "/virtualservices/", &failures} })
	w.Begin(t, func(ctx context.Context) (func(), error) { return w.RunExecutorAs(ctx, config, "") })
	g := aGray(t, w, "shop")
	w.Apply(t, g.ns, gray)
	g.start(t, "shop")
	w.Await(t, g.ns, "shop", world.PausedAt(1))
	g.shares(t, 20)

	failures.Store(3)
	w.Do(t, "-n", g.ns, "delete", "trafficrouting", "gray", "--timeout=600s")
	if left := failures.Load(); left >= 0 {
		t.Errorf("%d writes that were to fail never came, so this test proves nothing", left)
	}
	g.wantRestored(t)
	w.Await(t, g.ns, "shop", world.HeldFor(rollout.ReasonTrafficRoutingMissing))
	w.Apply(t, g.ns, gray)
	g.shares(t, 20)
	w.Approve(t, g.ns, "shop")
	w.Await(t, g.ns, "shop", world.Healthy)
	g.wantRestored(t)
}

func TestTheExampleOfTrafficRoutingsWorks(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	w.Do(t, "-n", ns, "apply", "-f", filepath.Join(world.Root(), "examples/traffic-routing"))
	w.Available(t, ns, "checkout")
	awaitAdopted(t, w, ns, "checkout", "checkout")
	w.Do(t, "-n", ns, "set", "env", "deployment/checkout", "VERSION=gray")
	w.Await(t, ns, "checkout", world.PausedAt(1))
	http, _, _ := unstructured.NestedSlice(w.Get(t, ns, "virtualservice", "checkout").Object, "spec", "http")
	want := parse(t, `
- match: [{headers: {version: {exact: gray}}}]
  route: [{destination: {host: checkout, subset: canary}}]
- route: [{destination: {host: checkout, subset: base}}]`)
	if diff := cmp.Diff(want, parse(t, toJSON(t, http))); diff != "" {
		t.Errorf("http (-want +got):\n%s", diff)
	}
	w.Approve(t, ns, "checkout")
	w.Await(t, ns, "checkout", world.Healthy)
	w.Do(t, "-n", ns, "wait", "trafficrouting/gray", "--for=jsonpath={.status.phase}=Healthy", "--timeout=600s")
}
