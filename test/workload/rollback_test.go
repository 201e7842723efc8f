package workload

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// admin is the user name of the tests and of OpenKruise's controllers for the API server.
const admin = "admin"

// Traffic leaves the new pods before the first of them goes. The remaining stable pods stay, and the new ones are
// replaced.
func TestARollback(t *testing.T) {
	each(t, func(t *testing.T, kind Kind) {
		for step := 1; step <= len(counts); step++ {
			t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
				t.Parallel()
				s := aShop(t, kind, routed, hasty)
				s.release(2)
				s.at(1, 2, 1, step)
				s.wantWeight(weights[step-1])
				s.wantPinned(2)
				stable, written := of(s.pods.now(), image(1)), s.w.Journal(s.ns)
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
				s.wantRouteBackFirst(written, 2)
			})
		}
	})
}

// wantRouteBackFirst checks the order of a rollback. A version had no traffic any more when the workload was released,
// and when its first pod went. The first write must be the change of the workload. Resource versions order the writes
// of executors and of other controllers.
func (s *shop) wantRouteBackFirst(written func() ([]world.Write, error), version int) {
	s.Helper()
	writes, err := written()
	if err != nil {
		s.Fatal(err)
	}
	var change, back, free int64
	for _, w := range writes {
		ofWorkload := w.Resource == s.kind.Resource.Resource && w.Subresource == ""
		switch {
		case w.Object == nil && w.Verb != "delete":
		case change == 0 && ofWorkload:
			change = w.Version
		case free == 0 && w.User != admin && (ofWorkload || w.Resource == pods.Resource && w.Verb == "delete"):
			free = w.Version
		case back == 0 && w.Resource == virtualServices.Resource && cmp.Equal(s.route.Object["spec"], w.Object.Object["spec"]):
			back = w.Version
		}
	}
	first := s.pods.takenSince(change, image(version))
	if change == 0 || back == 0 || free < back || first < back {
		s.Errorf("the workload was changed at %d and let go at %d, the first pod of %s went at %d, and the route was given back at %d", change, free, image(version), first, back)
	}
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
