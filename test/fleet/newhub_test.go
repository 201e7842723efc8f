package fleet

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// The hub is lost for good, with its key, its etcd and its NATS. Another one takes its place, with another key and another UID. Members keep what they run, and a
// version that the first hub has withdrawn stays away.
func TestAHubIsLostForGoodAndReplaced(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandRollback})
	s.phase(api.FleetPhaseWithdrawn, "RolledBack")
	s.release("  release: {version: v3}" + twoWaves)
	s.deliver("v3", "eu1", "eu2", "eu3")
	lost := s.phase(api.FleetPhaseWaiting, "Approval")
	release := s.member("eu1", serves("v3")).Status.Sluice.Epoch

	s.endHub()
	if err := s.startHub(t.Context(), "hub2"); err != nil {
		t.Fatal(err)
	}
	s.watchHub(s.hub)
	s.hub.Do(t, "create", "namespace", s.namespace)
	for _, m := range s.members {
		if err := s.enter(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := m.proxy.LeadTo(s.nats.URL()); err != nil {
			t.Fatal(err)
		}
		m.proxy.CutOff()
		m.proxy.Restore()
	}
	s.release("  release: {version: v3}" + twoWaves)
	status := s.phase(api.FleetPhaseWaiting, "Approval")
	if status.Epoch <= lost.Epoch {
		t.Errorf("the epoch %d of the new hub does not follow %d", status.Epoch, lost.Epoch)
	}
	if again := s.member("eu1", serves("v3")).Status.Sluice.Epoch; again != release {
		t.Errorf("eu1 ran v3 before, and has released it again: release %d after %d", again, release)
	}
	s.member("eu2", awaitsPermit("v3"))
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")

	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseStalled, "Blocked")
	for _, cluster := range []string{"eu1", "eu2", "eu3"} {
		s.member(cluster, serves("v3"))
	}
}
