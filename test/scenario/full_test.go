package scenario

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// The executor stalls a release in place of a workload of one pod before it replaces the pod. The owner accepts the
// step. Then the status shows that the new version gets all requests.
func TestAShareOfASinglePodIsHeldUntilItsOwnerAcceptsIt(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), inPlace(withSteps(t, "{replicas: 10%, traffic: 10%}", "{replicas: 100%, traffic: 100%}")))
	d.scale(t, 1)
	d.awaitSets(t, map[string]int32{"base": 1})
	d.release(t, version("new"))
	d.heldFor(t, rollout.ReasonFullStep, string(rollout.StateUpgrade), "Step 1 asks for 10% of the pods and 10% of the traffic, but Deployment workload-demo has 1 pod", "allowFullStep: true in step 1")
	d.await(t, world.Gets("0%", world.HeldFor(rollout.ReasonFullStep)))
	d.wantSets(t, map[string]int32{"base": 1})
	wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
	accepted := `{"spec":{"strategy":{"canary":{"steps":[{"replicas":"10%","traffic":"10%","allowFullStep":true},{"replicas":"100%","traffic":"100%"}]}}}}`
	if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", accepted); err != nil {
		t.Fatal(err)
	}
	d.await(t, world.Gets("100%", world.PausedAt(1)))
	d.wantSets(t, map[string]int32{"new": 1})
	wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
	d.approve(t)
	d.await(t, world.Healthy)
	d.wantRestored(t)
}

// An autoscaler leaves one pod in the middle of a step. The controller of the Deployment decides whether that is a
// stable or a new one. Requests reach that pod, and the status shows the share of the new version. The step goes on
// when the workload has more pods.
func TestAReleaseThatAnAutoscalerLeavesOnePodIsHeld(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), inPlace(withSteps(t, "{replicas: 1, traffic: 20%}", "{replicas: 100%, traffic: 100%}")))
	d.release(t, version("new"))
	d.await(t, world.Gets("20%", world.PausedAt(1)))
	d.scale(t, 1)
	r := d.await(t, func(r *api.Rollout) bool {
		return world.HeldFor(rollout.ReasonFullStep)(r) && r.Status.Sluice.Traffic != "20%"
	})
	left := slices.Collect(maps.Keys(d.sets(t)))
	if want := map[string]string{"base": "0%", "new": "100%"}[left[0]]; len(left) != 1 || r.Status.Sluice.Traffic != want {
		t.Errorf("the pods are of %v, and the new version gets %s", left, r.Status.Sluice.Traffic)
	}
	if left[0] == "base" {
		wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
	} else {
		wantUnpinned(t, d)
	}
	d.scale(t, 3)
	d.await(t, func(r *api.Rollout) bool {
		return world.PausedAt(1)(r) && world.Condition(r, api.ConditionStalled) == nil
	})
}

// wantUnpinned checks that the stable Service selects pods of every version.
func wantUnpinned(t *testing.T, d *demo) {
	t.Helper()
	selector, _, _ := unstructured.NestedStringMap(d.w.Object(t, d.ns, "service", "service-demo").Object, "spec", "selector")
	if hash := selector[api.LabelPodTemplateHash]; hash != "" {
		t.Errorf("the stable Service selects revision %s, of which there is no pod", hash)
	}
}
