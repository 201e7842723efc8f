package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// The workload rolls out by itself what its owner wants it to run.
func TestADeletedRolloutLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.release(2)
		s.at(1, 2, 1, 2)
		s.pods.allow(image(2), none)
		s.deleted()
		s.settled(image(2))
		s.runs(map[string]int{image(2): replicas})
		s.wantBack(false)
	})
}

func TestADisabledRolloutLetsGoAndHoldsAgain(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		s.release(2)
		s.at(1, 2, 1, 2)
		s.pods.allow(image(2), none)
		s.patch(api.RolloutResource(), `spec: {disabled: true}`)
		s.await(func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
		s.object(kind.Resource, "without a mark", func(u *unstructured.Unstructured) bool { return u.GetAnnotations()[api.AnnotationRollout] == "" })
		s.settled(image(2))
		s.runs(map[string]int{image(2): replicas})
		s.wantBack(false)

		epoch := s.await(func(r *api.Rollout) bool { return r.Status.Sluice != nil }).Status.Sluice.Epoch
		s.patch(api.RolloutResource(), `spec: {disabled: false}`)
		s.await(healthyAfter(epoch))
		s.adopted()
		s.release(3)
		s.await(pausedIn(epoch+1, 1))
		s.runs(map[string]int{image(2): replicas - 1, image(3): 1})
	})
}
