package workload

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// Stable pods that are left stay as they are, and the new ones are replaced.
func TestARollback(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		for step := 1; step <= len(counts); step++ {
			t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
				t.Parallel()
				s := aShop(t, kind, hasty)
				s.release(2)
				s.at(1, 2, 1, step)
				stable := of(s.pods.now(), image(1))
				if step == 1 {
					s.undo()
				} else {
					s.back()
				}
				r := s.await(healthyAfter(1))
				if c := world.Condition(r, api.ConditionSucceeded); c == nil || c.Status != "False" {
					t.Errorf("the condition Succeeded is %+v", c)
				}
				s.settled(image(1))
				s.runs(map[string]int{image(1): replicas})
				s.wantKept(stable)
				s.wantBack(true)
			})
		}
	})
}

// wantKept checks that none of these pods was replaced.
func (s *shop) wantKept(before map[string]*corev1.Pod) {
	s.Helper()
	now := s.pods.now()
	for name, pod := range before {
		if now[name] == nil || now[name].UID != pod.UID {
			s.Errorf("the pod %s was replaced", name)
		}
	}
}

// A pod that is never ready stops the release where it is. No controller of an ordered StatefulSet takes it away by itself.
func TestAVersionThatIsNeverReadyIsRolledBack(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.releaseSick(2)
		s.runs(map[string]int{image(1): replicas - 1, image(2) + "?": 1})
		r := s.await(func(r *api.Rollout) bool {
			return r.Status.CurrentStepState == api.StepUpgrade && r.Status.CanaryStatus.CanaryReplicas == 1
		})
		if r.Status.CanaryStatus.CanaryReadyReplicas != 0 {
			t.Errorf("%d new pods count as ready", r.Status.CanaryStatus.CanaryReadyReplicas)
		}
		stable := of(s.pods.now(), image(1))
		s.back()
		s.await(healthyAfter(1))
		s.runs(map[string]int{image(1): replicas})
		s.wantKept(stable)
		s.wantBack(true)
	})
}

// A version that is never ready gives way to one that is, whose pods come in its place.
func TestAVersionThatIsNeverReadyIsMended(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.releaseSick(2)
		s.runs(map[string]int{image(1): replicas - 1, image(2) + "?": 1})
		s.release(3)
		s.await(pausedIn(2, 1))
		s.finish(2, 3, 1)
		s.runs(map[string]int{image(3): replicas})
		s.wantBack(true)
	})
}
