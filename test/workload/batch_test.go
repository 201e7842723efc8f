package workload

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// inBatches asks for rollbacks by the steps. The second step has half of the pods.
func inBatches(all objects) {
	plain(all)
	hasty(all)
	all["Rollout"].SetAnnotations(map[string]string{api.AnnotationRollbackInBatch: "true"})
	steps(all, func(n int, step map[string]any) { step["replicas"] = []any{int64(1), "50%", int64(4)}[n] })
}

// batched plays a test with each kind that goes back in batches.
func batched(t *testing.T, test func(*testing.T, Kind)) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Daemon {
			t.Skip("a DaemonSet goes back at once")
		}
		test(t, kind)
	})
}

// aReturn returns a shop whose second version had four of five pods when its owner rolled it back.
func aReturn(t *testing.T, kind Kind) (s *shop, stable map[string]*corev1.Pod) {
	t.Helper()
	s = aShop(t, kind, inBatches)
	s.pods.allow(image(2), 4)
	s.release(2)
	s.at(1, 2, 1, 3)
	s.runs(map[string]int{image(1): 1, image(2): 4})
	stable = of(s.pods.now(), image(1))
	s.pods.keep(image(2), 3)
	s.back()
	r := s.await(pausedIn(2, 1))
	if id := r.Status.CanaryStatus.ObservedRolloutID; id != "rollback-"+r.Status.Sluice.CanaryRevision {
		t.Errorf("the rollback is called %q", id)
	}
	s.runs(map[string]int{image(1): 2, image(2): 3})
	return s, stable
}

// At the first step one of the four pods goes, at the second half of them, and at the end all.
func TestARollbackInBatches(t *testing.T) {
	batched(t, func(t *testing.T, kind Kind) {
		s, stable := aReturn(t, kind)
		id := s.await(pausedIn(2, 1)).Status.CanaryStatus.ObservedRolloutID
		s.until("their labels", func(pods map[string]*corev1.Pod) bool {
			for name, pod := range pods {
				spared, back := stable[name] != nil, stable[name] == nil && pod.Spec.Containers[0].Image == image(1)
				if (pod.Labels[api.LabelNoNeedUpdate] == id) != spared || (pod.Labels[api.LabelRolloutID] == id) != back || back && pod.Labels[api.LabelRolloutBatchID] != "1" {
					return false
				}
			}
			return true
		})
		s.pods.keep(image(2), 2)
		s.approve(1, 1)
		s.await(pausedIn(2, 2))
		s.runs(map[string]int{image(1): 3, image(2): 2})
		s.pods.keep(image(2), 0)
		s.approve(1, 2)
		s.await(pausedIn(2, 3))
		s.runs(map[string]int{image(1): 5})
		s.approve(1, 3)
		r := s.await(healthyAfter(2))
		if c := world.Condition(r, api.ConditionSucceeded); c == nil || c.Status != "True" {
			t.Errorf("the condition Succeeded is %+v", c)
		}
		s.settled(image(1))
		s.wantKept(stable)
		s.wantBack(true)
	})
}

// If a rollback in batches is stopped in any way, all pods go back at once.
func TestARollbackInBatchesThatIsStopped(t *testing.T) {
	for sentence, stop := range map[string]func(*shop){
		"by an abort": func(s *shop) { s.command(api.CommandAbort) },
		"as its annotation is taken away": func(s *shop) {
			s.patch(api.RolloutResource(), fmt.Sprintf("metadata: {annotations: {%s: null}}", api.AnnotationRollbackInBatch))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			batched(t, func(t *testing.T, kind Kind) {
				s, stable := aReturn(t, kind)
				s.pods.keep(image(2), 0)
				stop(s)
				s.await(healthyAfter(2))
				s.settled(image(1))
				s.runs(map[string]int{image(1): replicas})
				s.wantKept(stable)
				s.wantBack(true)
			})
		})
	}
}

func TestARollbackInBatchesWhoseRolloutGoes(t *testing.T) {
	for sentence, end := range map[string]func(*shop){
		"deleted": (*shop).deleted,
		"disabled": func(s *shop) {
			s.patch(api.RolloutResource(), `spec: {disabled: true}`)
			s.await(func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
			s.object(s.kind.Resource, "without a mark", func(u *unstructured.Unstructured) bool { return u.GetAnnotations()[api.AnnotationRollout] == "" })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			batched(t, func(t *testing.T, kind Kind) {
				s, stable := aReturn(t, kind)
				s.pods.keep(image(2), 0)
				end(s)
				s.settled(image(1))
				s.runs(map[string]int{image(1): replicas})
				s.wantKept(stable)
				s.wantBack(false)
			})
		})
	}
}

// A version that comes during the rollback is released from step 1, whether it is a third one or the second one again.
func TestAVersionDuringARollbackInBatches(t *testing.T) {
	batched(t, func(t *testing.T, kind Kind) {
		s, _ := aReturn(t, kind)
		s.pods.keep(image(2), 0)
		s.release(3)
		s.await(pausedIn(3, 1))
		s.pods.allow(image(3), 3)
		s.approve(3, 1)
		s.await(pausedIn(3, 2))
		s.pods.allow(image(3), 4)
		s.approve(3, 2)
		s.await(pausedIn(3, 3))
		s.approve(3, 3)
		s.await(healthyAfter(3))
		s.settled(image(3))
		s.runs(map[string]int{image(3): replicas})
		s.wantBack(true)
	})
}

// An unready pod of the version under rollback goes as part of a step, and not before.
func TestASickVersionGoesBackInBatches(t *testing.T) {
	batched(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, inBatches)
		s.pods.allow(image(2), 4)
		s.releaseSick(2)
		s.runs(map[string]int{image(1): replicas - 1, image(2) + "?": 1})
		stable := of(s.pods.now(), image(1))
		s.back()
		s.await(pausedIn(2, 1))
		s.runs(map[string]int{image(1): replicas})
		s.wantKept(stable)
		s.command(api.CommandPromote)
		s.await(healthyAfter(2))
		s.wantBack(true)
	})
}
