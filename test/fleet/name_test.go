package fleet

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// Another cluster speaks to the hub by the name and the key of a member. Neither of them gets a permit. The member goes on when the other one is gone.
func TestAClusterTakesTheNameOfAnother(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	eu3 := s.members["eu3"]
	thief := *s.hub // the cluster of the hub has a UID of its own
	thief.Member = s.linkOf(eu3, s.nats.URL())
	var stops []func()
	stop := func() {
		for _, end := range stops {
			end()
		}
		stops = nil
	}
	t.Cleanup(stop)
	for _, part := range []func() (func(), error){
		func() (func(), error) { return thief.RunWatcher(t.Context()) },
		func() (func(), error) { return thief.RunExecutor(t.Context(), "") },
	} {
		end, err := part()
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, end)
	}
	thief.Apply(t, s.namespace, s.manifests("v1"))
	thief.Await(t, s.namespace, "checkout", func(r *api.Rollout) bool { return world.Healthy(r) && serves("v1")(r) })
	s.awaitMember("eu3", "to share its name", func(m api.FleetMember) bool { return m.Status.Phase == api.FleetMemberNameTaken })

	s.release("  release: {version: v2}\n  budgets: {unreachable: 1}\n  waves: [{name: all, maxConcurrency: 3}]\n")
	thief.Apply(t, s.namespace, s.manifests("v2"))
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseSucceeded, "Completed")
	for name, w := range map[string]*world.World{"eu3": eu3.World, "the other cluster": &thief} {
		if r := w.Await(t, s.namespace, "checkout", awaitsPermit("v2")); r.Status.Fleet.Permit != nil {
			t.Errorf("%s has the permit %+v", name, r.Status.Fleet.Permit)
		}
	}
	stop()
	s.member("eu3", serves("v2"))
	s.target("eu3", api.FleetTargetCompleted)
	if r := thief.Await(t, s.namespace, "checkout", awaitsPermit("v2")); r.Status.Fleet.Permit != nil {
		t.Errorf("the other cluster has the permit %+v", r.Status.Fleet.Permit)
	}
}
