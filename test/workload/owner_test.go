package workload

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A partition of the owner's own is given back in the end, and keeps the pods that it keeps without Sluice.
func TestAnOwnersPartitionIsKept(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Partition == nil {
			t.Skip("it has no partition of its own")
		}
		const keeps = 2
		s := aShop(t, kind, hasty, strategy(int64(keeps), kind.Partition...))
		s.release(2)
		s.finish(1, 2, 1)
		s.runs(map[string]int{image(1): keeps, image(2): replicas - keeps})
		s.wantBack(true)
	})
}

// One that its owner asks for in the middle of a release counts from its end on.
func TestAPartitionAskedForDuringARelease(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Partition == nil {
			t.Skip("it has no partition of its own")
		}
		const keeps = 1
		s := aShop(t, kind, hasty)
		set(s.workload, int64(keeps), append([]string{"spec", "updateStrategy"}, kind.Partition...)...)
		s.release(2)
		s.at(1, 2, 1, 2)
		if len(kind.Partition) == 1 {
			s.patch(kind.Resource, `spec: {updateStrategy: {partition: 1}}`)
		} else {
			s.patch(kind.Resource, `spec: {updateStrategy: {rollingUpdate: {partition: 1}}}`)
		}
		s.finish(1, 2, 2)
		s.runs(map[string]int{image(1): keeps, image(2): replicas - keeps})
		s.wantBack(true)
	})
}

// Pods that are replaced at once are as many as the owner allows: one, in the examples.
func TestNoMorePodsAreMissingThanTheOwnerAllows(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty)
		least := s.leastReady()
		s.release(2)
		s.finish(1, 2, 1)
		s.runs(map[string]int{image(2): replicas})
		if n := least(); n != replicas-1 {
			t.Errorf("at one time %d pods were ready", n)
		}
	})
}

// leastReady begins to note how many pods are ready; what it returns tells the least.
func (s *shop) leastReady() func() int {
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	s.pods.least = none
	return func() int {
		s.pods.mu.Lock()
		defer s.pods.mu.Unlock()
		return s.pods.least
	}
}

// Whoever deletes the pods himself has nothing to release: no pod of his is touched, and the Rollout tells why.
func TestAWorkloadWhoseOwnerDeletesItsPodsIsLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		if kind.Name == "cloneset" {
			t.Skip("it has no such update type")
		}
		s := aShop(t, kind, hasty, strategy("OnDelete", "type"))
		before := s.pods.now()
		s.change(2, "null")
		s.await(world.HeldFor(rollout.HoldInvalidSpec))
		s.object(kind.Resource, "seen and free", func(u *unstructured.Unstructured) bool {
			return number(u, "status", "observedGeneration") == u.GetGeneration() && u.GetAnnotations()[api.AnnotationInProgressing] == ""
		})
		s.wantKept(before)
		s.wantBack(true)
		s.pods.allow(image(2), 1)
		for pod := range before {
			if err := s.client(pods).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			break
		}
		s.runs(map[string]int{image(1): replicas - 1, image(2): 1})
	})
}
