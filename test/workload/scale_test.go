package workload

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

// A share stays the share. Up: pods that come to a StatefulSet or to new nodes are of the new version, for its controller knows no
// shares; pods are never taken back. Down: there are never fewer new pods than the step has.
func TestAWorkloadIsScaledWithinAStep(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.release(2)
		s.at(1, 2, 1, 2)
		for _, want := range []struct{ replicas, share int }{{8, 4}, {3, 2}} {
			s.pods.allow(image(2), want.replicas-1)
			s.scale(want.replicas)
			s.until(fmt.Sprintf("%d pods, %d or more of them new", want.replicas, want.share), func(now map[string]*corev1.Pod) bool {
				got := images(now)
				return got[image(1)]+got[image(2)] == want.replicas && got[image(2)] >= want.share
			})
			s.await(pausedIn(1, 2))
			if kind.Name == "cloneset" {
				s.runs(map[string]int{image(1): want.replicas - want.share, image(2): want.share})
			}
		}
		s.pods.allow(image(2), none)
		s.finish(1, 2, 2)
		s.runs(map[string]int{image(2): 3})
		s.wantBack(true)
	})
}

// With nothing to run there is nothing to release: the change is not held.
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
