package workload

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// A workload without pods has nothing to release: the change is not held.
func TestAWorkloadOfNoPodsIsChanged(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Daemon {
			t.Skip("whether a DaemonSet has nodes is not in its spec: its change is held all the same")
		}
		s := aShop(t, kind, hasty)
		s.scale(0)
		s.runs(map[string]int{})
		s.settled(image(1))
		s.pods.allow(image(2), none)
		s.change(2, "null")
		s.settled(image(2))
		s.scale(replicas)
		s.runs(map[string]int{image(2): replicas})
		s.await(func(r *api.Rollout) bool { return healthyAfter(0)(r) && r.Status.ObservedGeneration == r.Generation })
		s.release(3)
		s.await(func(r *api.Rollout) bool { return r.Status.CurrentStepState == api.StepPaused })
		s.runs(map[string]int{image(2): replicas - 1, image(3): 1})
	})
}
