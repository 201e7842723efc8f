package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A version that served just before the one that serves gets all pods without the steps; one further back takes them.
func TestAVersionThatServedLatelyNeedsNoSteps(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		s := aShop(t, kind, hasty, func(all objects) { set(all["Rollout"], int64(1), "spec", "strategy", "rollbackWindow", "revisions") })
		s.promoted(2, 1)
		s.promoted(3, 2)
		written := s.w.Journal(s.ns)
		s.change(2, "null")
		s.await(healthyAfter(3))
		s.settled(image(2))
		s.runs(map[string]int{image(2): replicas})
		s.wantNoStep(written, 3)
		s.wantBack(true)

		s.back()
		s.await(pausedIn(4, 1))
		s.runs(map[string]int{image(2): replicas - counts[0], image(1): counts[0]})
	})
}

// promoted releases a version without waiting at its steps.
func (s *shop) promoted(version int, epoch int64) {
	s.Helper()
	s.release(version)
	s.await(pausedIn(epoch, 1))
	s.pods.allow(image(version), none)
	s.command(api.CommandPromote)
	s.await(healthyAfter(epoch))
	s.settled(image(version))
	s.runs(map[string]int{image(version): replicas})
}

// wantNoStep checks the commits of a release: it was never in a step.
func (s *shop) wantNoStep(written func() ([]world.Write, error), epoch int64) {
	s.Helper()
	writes, err := written()
	if err != nil {
		s.Fatal(err)
	}
	begun := false
	for _, w := range writes {
		if w.Resource != "rollouts" || w.Object == nil {
			continue
		}
		of, _, _ := unstructured.NestedFieldNoCopy(w.Object.Object, "status", "sluice", "epoch")
		state, _, _ := unstructured.NestedString(w.Object.Object, "status", "sluice", "state")
		if of != float64(epoch) {
			continue
		}
		if begun = true; rollout.State(state).InStep() {
			s.Errorf("release %d was in the state %s", epoch, state)
		}
	}
	if !begun {
		s.Errorf("nothing of release %d was committed", epoch)
	}
}
