package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// chained is an application whose release asks for a TrafficRouting: Deployment and Rollout of one name.
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

// grays is a namespace with a TrafficRouting and what it routes.
type grays struct {
	w  *world.World
	ns string
	vs,
	rule *unstructured.Unstructured // before anything is routed
}

func aGray(t *testing.T, w *world.World, applications ...string) *grays {
	t.Helper()
	g := &grays{w: w, ns: w.Namespace(t)}
	w.Apply(t, g.ns, shopRoutes)
	for _, name := range applications {
		w.Apply(t, g.ns, strings.ReplaceAll(chained, "NAME", name))
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

// shares waits until the canary's share of the VirtualService is that.
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
	g := aGray(t, world.Shared(t), "shop")
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
	g.w.Approve(t, g.ns, "shop")
	g.w.Await(t, g.ns, "shop", world.Healthy)
	g.phase(t, api.RoutingHealthy)
	g.wantUsers(t)
	g.wantRestored(t)
}

func TestARolloutWaitsForATrafficRoutingThatDoesNotExist(t *testing.T) {
	t.Parallel()
	g := aGray(t, world.Shared(t), "shop")
	g.w.Await(t, g.ns, "shop", world.HeldFor(rollout.HoldRoutingMissing))
	g.start(t, "shop")
	g.w.Await(t, g.ns, "shop", func(r *api.Rollout) bool {
		return r.Status.Sluice.GetState() == string(rollout.StateInitializing) && world.HeldFor(rollout.HoldRoutingMissing)(r)
	})
	g.w.Apply(t, g.ns, gray)
	g.w.Await(t, g.ns, "shop", world.PausedAt(1))
	g.shares(t, 20)
}
