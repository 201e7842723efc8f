package scenario

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// forked is the walkthrough with a second Service for the same pods, which a kind of the users routes.
type forked struct {
	*demo
	approving         string // the patch that approves a pause, in its style
	viaduct, grpcOnly *unstructured.Unstructured
}

const viaductScript = `obj.data.spec.stable = obj.stableService
obj.data.spec.canary = obj.canaryService
obj.data.spec.weight = obj.canaryWeight
return obj.data
`

const grpcService = `apiVersion: v1
kind: Service
metadata: {name: service-grpc}
spec: {selector: {app: nginx}, ports: [{port: 9000, name: grpc}]}
`

// fork adds the second entry to a Rollout of the walkthrough.
func fork(t *testing.T, manifest string) string {
	t.Helper()
	return swap(t, manifest, "          name: vs-demo\n", `          name: vs-demo
      - service: service-grpc
        gracePeriodSeconds: 1
        customNetworkRefs: [{apiVersion: roads.example.com/v1, kind: Viaduct, name: road}]
`)
}

// forkedStyles returns the Rollouts by style.
func forkedStyles(t *testing.T) map[string]string {
	steps := []string{"{replicas: 1, matches: [{headers: [{type: Exact, name: version, value: canary}]}]}", "{replicas: 2, traffic: 50%}"}
	return map[string]string{
		"canary": withSteps(t, steps...), "partition": inPlace(withSteps(t, steps...)), "blue-green": blueGreen(t, steps...),
	}
}

func aFork(t *testing.T, style string) *forked {
	t.Helper()
	w := world.Shared(t)
	f := &forked{approving: approval}
	if style == "blue-green" {
		f.approving = `{"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`
	}
	f.demo = aDemo(t, w, fork(t, forkedStyles(t)[style]), grpcService, laneOf("Viaduct"))
	f.beside = []string{"service-grpc"}
	f.viaduct, f.grpcOnly = w.Get(t, f.ns, "viaduct", "road"), w.Get(t, f.ns, "service", "service-grpc")
	return f
}

func (f *forked) approve(t *testing.T) {
	t.Helper()
	if err := f.status(t, f.approving); err != nil {
		t.Fatal(err)
	}
}

// wantRouted checks that both gateway objects are at a step, and that each Service serves the stable pods and its canary the new ones.
func (f *forked) wantRouted(t *testing.T, r *api.Rollout, route string, weight int) {
	t.Helper()
	wantSpec(t, f.w, f.ns, "virtualservice", "vs-demo", route)
	wantSpec(t, f.w, f.ns, "viaduct", "road", fmt.Sprintf("{to: service-demo, stable: service-grpc, canary: service-grpc-canary, weight: %d}", weight))
	common := r.Status.Common()
	for service, want := range map[string]string{
		"service-demo": common.StableRevision, "service-grpc": common.StableRevision,
		"service-demo-canary": common.PodTemplateHash, "service-grpc-canary": common.PodTemplateHash,
	} {
		got, _, _ := unstructured.NestedString(f.w.Get(t, f.ns, "service", service).Object, "spec", "selector", "pod-template-hash")
		if got != want || want == "" {
			t.Errorf("Service %s selects the pods of %q, not of %q", service, got, want)
		}
	}
}

// toStep2 brings a release to the pause of its last step.
func (f *forked) toStep2(t *testing.T) {
	t.Helper()
	f.release(t, version("canary"))
	f.wantRouted(t, f.await(t, world.PausedAt(1)), headerRoute, -1)
	f.approve(t)
	f.wantRouted(t, f.await(t, world.PausedAt(2)), weightRoute(50), 50)
}

func (f *forked) wantUnrouted(t *testing.T) {
	t.Helper()
	wantSame(t, f.viaduct, f.w.Get(t, f.ns, "viaduct", "road"))
	wantSame(t, f.grpcOnly, f.w.Get(t, f.ns, "service", "service-grpc"))
}

func TestAReleaseIsRoutedThroughTwoServices(t *testing.T) {
	w := world.Shared(t)
	setScript(t, w, "lua.traffic.routing.Viaduct.roads.example.com", viaductScript)
	w.Apply(t, "default", crd("Viaduct")+"---\n"+grant("Viaduct"))
	w.Do(t, "wait", "--for=condition=Established", "crd", "viaducts.roads.example.com")
	for style := range forkedStyles(t) {
		for name, end := range map[string]func(*testing.T, *forked){
			"ends": func(t *testing.T, f *forked) {
				f.approve(t)
				f.await(t, world.Healthy)
				f.w.Available(t, f.ns, "workload-demo")
				f.wantRestored(t)
			},
			"is aborted": func(t *testing.T, f *forked) {
				f.command(t, api.CommandAbort)
				f.await(t, func(r *api.Rollout) bool {
					return r.Status.Sluice.State == "Aborted" && r.Status.Sluice.RouteDigest == ""
				})
				wantSame(t, f.route, f.w.Get(t, f.ns, "virtualservice", "vs-demo"))
				wantSame(t, f.viaduct, f.w.Get(t, f.ns, "viaduct", "road"))
				f.release(t, version("base"))
				f.await(t, world.Healthy)
				f.wantRestored(t)
			},
			"is deleted": func(t *testing.T, f *forked) {
				f.w.Do(t, "-n", f.ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
				f.wantForgotten(t)
			},
		} {
			t.Run(style+" "+name, func(t *testing.T) {
				t.Parallel()
				f := aFork(t, style)
				f.toStep2(t)
				end(t, f)
				f.wantUnrouted(t)
			})
		}
		t.Run(style+" without one of its gateway objects", func(t *testing.T) {
			t.Parallel()
			aFork(t, style).withoutViaduct(t)
		})
	}
	t.Run("contested", func(t *testing.T) {
		t.Parallel()
		aFork(t, "canary").contested(t)
	})
}

// withoutViaduct deletes one of two gateway objects. Before a release, no part of it begins. During a release, the
// other object stays at its step.
func (f *forked) withoutViaduct(t *testing.T) {
	f.w.Do(t, "-n", f.ns, "delete", "viaduct", "road")
	f.release(t, version("canary"))
	f.await(t, world.HeldFor(rollout.ReasonRouteMissing))
	wantSame(t, f.route, f.w.Get(t, f.ns, "virtualservice", "vs-demo"))
	wantSame(t, f.stable, f.w.Get(t, f.ns, "service", "service-demo"))
	f.wantSets(t, map[string]int32{"base": 3})

	f.w.Apply(t, f.ns, laneOf("Viaduct"))
	f.wantRouted(t, f.await(t, world.PausedAt(1)), headerRoute, -1)
	f.w.Do(t, "-n", f.ns, "delete", "viaduct", "road")
	f.approve(t)
	r := f.await(t, world.HeldFor(rollout.ReasonRouteMissing))
	if step := r.Status.CurrentStepIndex; step != 1 {
		t.Errorf("it is in step %d", step)
	}
	wantSpec(t, f.w, f.ns, "virtualservice", "vs-demo", headerRoute)

	f.w.Apply(t, f.ns, laneOf("Viaduct"))
	f.wantRouted(t, f.await(t, world.PausedAt(2)), weightRoute(50), 50)
}

// contested is a release with one gateway object that another user changes repeatedly.
func (f *forked) contested(t *testing.T) {
	f.toStep2(t)
	for range 3 {
		f.w.AwaitObject(t, f.ns, "viaduct", "road", "to be routed", func(u *unstructured.Unstructured) bool {
			_, routed, _ := unstructured.NestedString(u.Object, "spec", "canary")
			return routed
		})
		if err := f.w.Patch(t, f.ns, "viaduct", "road", `{"spec":{"canary":null}}`); err != nil {
			t.Fatal(err)
		}
	}
	f.await(t, world.HeldFor(rollout.ReasonRouteConflict))
	f.approve(t)
	r := f.await(t, world.HeldFor(rollout.ReasonRouteConflict))
	if diff := cmp.Diff(int32(2), r.Status.CurrentStepIndex); diff != "" {
		t.Error(diff)
	}
	wantSpec(t, f.w, f.ns, "virtualservice", "vs-demo", weightRoute(50))
	f.release(t, version("base"))
	f.await(t, world.Healthy)
	f.wantRestored(t)
}
