package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// For each kind of workload, the executor stalls a step that would replace the only pod. The step goes on with more
// pods. It stalls again when an autoscaler removes them. The owner may accept the step.
func TestAStepThatWouldReplaceTheOnlyPodIsHeld(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty, routed)
		s.scale(1)
		s.settled(image(1))
		s.runs(map[string]int{image(1): 1})
		s.release(2)
		s.await(world.Gets("0%", heldAt(rollout.StateUpgrade)))
		s.runs(map[string]int{image(1): 1})
		if !kind.Daemon { // a DaemonSet creates new pods on nodes that join
			s.scale(replicas)
			s.await(world.Gets("20%", pausedIn(1, 1)))
			s.runs(map[string]int{image(1): replicas - 1, image(2): 1})
			s.scale(1)
			s.await(world.Gets("0%", heldAt(rollout.StatePaused)))
			s.runs(map[string]int{image(1): 1})
			s.wantWeight(0)
		}
		s.accept()
		s.await(world.Gets("100%", pausedIn(1, 1)))
		s.runs(map[string]int{image(2): 1})
		s.wantWeight(0)
		s.back()
		s.await(healthyAfter(1))
		s.settled(image(1))
		s.runs(map[string]int{image(1): 1})
	})
}

// heldAt is the goal that a step in this state is stalled because it would replace all pods.
func heldAt(state rollout.State) world.Goal {
	return func(r *api.Rollout) bool {
		return world.HeldFor(rollout.ReasonFullStep)(r) && r.Status.Sluice.State == string(state)
	}
}

// accept lets each step replace all pods.
func (s *shop) accept() {
	s.Helper()
	steps, _, _ := unstructured.NestedSlice(s.get(api.RolloutResource()).Object, "spec", "strategy", "canary", "steps")
	for _, step := range steps {
		step.(map[string]any)["allowFullStep"] = true
	}
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	set(patch, steps, "spec", "strategy", "canary", "steps")
	text, err := patch.MarshalJSON()
	if err != nil {
		s.Fatal(err)
	}
	s.patch(api.RolloutResource(), string(text))
}
