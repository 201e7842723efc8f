package scenario

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// constant is the walkthrough with constant capacity: as the canary grows, the executor scales the workload of three
// down by one, and then by two.
func constant(t *testing.T) string {
	return swap(t, withSteps(t, "{replicas: 33%, traffic: 34%}", "{replicas: 66%, traffic: 67%}", "{replicas: 66%, traffic: 90%}"),
		"      steps:\n", "      capacity: Constant\n      abortScaleDownDelaySeconds: 1\n      steps:\n")
}

// awaitTold waits until the workload wants a number of pods.
func (d *demo) awaitTold(t *testing.T, want int64) {
	t.Helper()
	d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", fmt.Sprintf("to run %d pods", want), func(u *unstructured.Unstructured) bool {
		n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		return n == want
	})
}

// wantWhole checks that the release is over and that one version runs with all the pods that the owner wants.
func (d *demo) wantWhole(t *testing.T, version string, pods int32) {
	t.Helper()
	d.await(t, world.Healthy)
	d.awaitSets(t, map[string]int32{version: pods})
	d.w.Available(t, d.ns, "workload-demo")
	d.wantRestored(t)
	d.wantFree(t)
}

// wantConstant checks the pods during a release: none of three was ever missing. One more is allowed, and another one
// while two Deployments are scaled in parallel.
func wantConstant(t *testing.T, bounds func() (fewest, most int64)) {
	t.Helper()
	if fewest, most := bounds(); fewest < 3 || most > 5 {
		t.Errorf("from %d ready pods to %d told, with 3 replicas", fewest, most)
	}
}

func TestStablePodsGiveWayToTheEndOfARelease(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), constant(t))
	bounds, breaches := d.watchBudget(t), watchRoutes(t, d.w, d.ns)
	d.release(t, version("green"))
	for n, want := range []map[string]int32{{"base": 2, "green": 1}, {"base": 1, "green": 2}, {"base": 1, "green": 2}} {
		d.await(t, world.PausedAt(int32(n+1)))
		d.awaitSets(t, want)
		wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", weightRoute([]int{34, 67, 90}[n]))
		d.approve(t)
	}
	d.wantWhole(t, "green", 3)
	wantConstant(t, bounds)
	for _, breach := range breaches() {
		t.Error(breach)
	}
}

func TestStablePodsComeBackHoweverAReleaseIsTurnedAside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		aside func(*demo)
		runs  string
	}{
		"rolled back": {func(d *demo) { d.release(t, version("base")) }, "base"},
		"aborted, and rolled back after that": {func(d *demo) {
			d.command(t, api.CommandAbort)
			d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice.State == "Aborted" })
			d.awaitTold(t, 3)
			d.awaitSets(t, map[string]int32{"base": 3})
			d.release(t, version("base"))
		}, "base"},
		"tried again": {func(d *demo) {
			d.command(t, api.CommandAbort)
			d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice.State == "Aborted" })
			d.command(t, api.CommandRetry)
			d.await(t, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch == 2 })
			d.finish(t, 1)
		}, "bad"},
		"promoted": {func(d *demo) { d.command(t, api.CommandPromote) }, "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), constant(t))
			bounds, breaches := d.watchBudget(t), watchRoutes(t, d.w, d.ns)
			d.release(t, version("bad"))
			d.at(t, 2)
			d.awaitTold(t, 1)
			c.aside(d)
			d.wantWhole(t, c.runs, 3)
			wantConstant(t, bounds)
			for _, breach := range breaches() {
				t.Error(breach)
			}
		})
	}
}

func TestStablePodsComeBackWhenTheRolloutIsDeletedOrDisabled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*demo){
		"deleted": func(d *demo) { d.w.Do(t, "-n", d.ns, "delete", "rollout", "rollouts-demo", "--timeout=600s") },
		"disabled": func(d *demo) {
			d.w.Do(t, "-n", d.ns, "patch", "rollout", "rollouts-demo", "--type=merge", "-p", `{"spec":{"disabled":true}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), constant(t))
			bounds := d.watchBudget(t)
			d.release(t, version("green"))
			d.at(t, 2)
			d.awaitTold(t, 1)
			end(d)
			d.awaitSets(t, map[string]int32{"green": 3})
			d.w.Available(t, d.ns, "workload-demo")
			d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "to bear no mark", func(u *unstructured.Unstructured) bool {
				return len(marksOf(u.GetAnnotations())) == 0
			})
			d.wantForgotten(t)
			wantConstant(t, bounds)
		})
	}
}

// A manifest that is applied repeatedly has the number of pods that its owner wants. It does not have the current
// number of stable pods.
func TestAGitOpsActorKeepsNoPodsFromGivingWay(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actorOnTheDeployment(t, way, constant(t))
		})
	}
}

func TestAWorkloadThatGivesWayIsScaled(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), constant(t))
	d.release(t, version("green"))
	d.at(t, 2)
	d.awaitSets(t, map[string]int32{"base": 1, "green": 2})
	d.scale(t, 6)
	d.awaitSets(t, map[string]int32{"base": 2, "green": 4})
	d.w.Do(t, "-n", d.ns, "patch", "deployment", "workload-demo", "-p", `{"spec":{"replicas":4}}`)
	d.awaitSets(t, map[string]int32{"base": 2, "green": 4}) // a canary is never scaled down in a step, and the traffic needs two
	d.approve(t)
	d.await(t, world.PausedAt(3))
	d.awaitSets(t, map[string]int32{"base": 1, "green": 4})
	d.approve(t)
	d.wantWhole(t, "green", 4)
}

func TestAnAutoscalerIsOffWhilePodsGiveWay(t *testing.T) {
	t.Parallel()
	const scaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: own}
spec:
  minReplicas: 2
  maxReplicas: 5
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}
`
	for name, back := range map[string]string{"approved": "green", "rolled back": "base"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), constant(t), scaler)
			get := func(path string) string { return d.w.Do(t, "-n", d.ns, "get", "hpa", "own", "-o", "jsonpath="+path) }
			d.release(t, version("green"))
			d.at(t, 2)
			d.awaitSets(t, map[string]int32{"base": 1, "green": 2})
			if got := get("{.spec.scaleTargetRef.name}"); got != "workload-demo-DisableByRollout" {
				t.Errorf("while pods give way it scales %s", got)
			}
			// The owner applies the autoscaler with other bounds, and so attaches it again. It takes the remaining pods
			// for all pods, so its number is not the owner's wish.
			d.w.Apply(t, d.ns, strings.NewReplacer("minReplicas: 2", "minReplicas: 3", "maxReplicas: 5", "maxReplicas: 9").Replace(scaler))
			d.w.Do(t, "-n", d.ns, "wait", "hpa/own", "--for=jsonpath={.spec.scaleTargetRef.name}=workload-demo-DisableByRollout", "--timeout=600s")
			d.awaitSets(t, map[string]int32{"base": 1, "green": 2})
			if back == "green" {
				d.finish(t, 2)
			} else {
				d.release(t, version("base"))
			}
			d.wantWhole(t, back, 3)
			if got := get("{.spec.scaleTargetRef.name} {.spec.minReplicas} to {.spec.maxReplicas}"); got != "workload-demo 3 to 9" {
				t.Errorf("afterwards it scales %s", got)
			}
			if marks := get("{.metadata.annotations}{.metadata.labels}"); strings.Contains(marks, "sluice") || strings.Contains(marks, "kruise") {
				t.Errorf("marks of the release are left: %s", marks)
			}
		})
	}
}
