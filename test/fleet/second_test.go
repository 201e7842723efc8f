package fleet

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A second version is named in each state of the first release. It goes through all waves, and no cluster that was in the middle of the first version ends it.
func TestASecondReleaseInEachStateOfTheFirst(t *testing.T) {
	t.Parallel()
	for state, reach := range map[string]func(*story){
		"before its first grant": func(s *story) {
			s.phase(api.FleetPhaseWaiting, "Delivery")
		},
		"awaiting approval": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseWaiting, "Approval")
		},
		"paused": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.member("eu1", world.PausedAt(1))
			s.command(api.FleetCommand{Action: api.FleetCommandPause})
			s.phase(api.FleetPhasePaused, "Paused")
		},
		"soaking": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseSoaking, "Soak")
		},
		"withdrawn": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseWaiting, "Approval")
			s.command(api.FleetCommand{Action: api.FleetCommandRollback})
			s.phase(api.FleetPhaseWithdrawn, "RolledBack")
		},
		"aborted under way": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.member("eu1", world.PausedAt(1))
			s.command(api.FleetCommand{Action: api.FleetCommandAbort})
			s.phase(api.FleetPhaseAborted, "Aborted")
		},
		"succeeded": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseWaiting, "Approval")
			s.command(api.FleetCommand{Action: api.FleetCommandApprove})
			s.phase(api.FleetPhaseSucceeded, "Completed")
		},
		"stalled": func(s *story) {
			s.deliver("v2", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseStalled, "NothingProven")
		},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.installed("v1")
			plan := twoWaves
			switch state {
			case "soaking":
				plan = "\n  waves: [{name: all, maxConcurrency: 3, soak: 1h}]\n"
			case "stalled":
				plan = "\n  waves: [{name: canary, clusters: {matchLabels: {tier: canary}}, minCompleted: 2}, {name: rest}]\n"
			case "aborted under way", "paused":
				plan += "  localPauses: Keep\n"
			}
			s.release("  release: {version: v2}" + plan)
			reach(s)
			s.release("  release: {version: v3}\n  localPauses: Pass" + twoWaves)
			if state == "paused" { // a new version does not end the pause of a person
				s.await("paused, with v3", func(r api.FleetRolloutStatus) bool {
					return r.Phase == api.FleetPhasePaused && r.Release.Version == "v3"
				})
				s.command(api.FleetCommand{Action: api.FleetCommandResume})
			}
			s.deliver("v3", "eu1", "eu2", "eu3")
			s.phase(api.FleetPhaseWaiting, "Approval")
			s.member("eu1", serves("v3"))
			for _, cluster := range []string{"eu2", "eu3"} {
				s.member(cluster, awaitsPermit("v3"))
			}
			s.command(api.FleetCommand{Action: api.FleetCommandApprove})
			s.phase(api.FleetPhaseSucceeded, "Completed")
			for _, cluster := range []string{"eu1", "eu2", "eu3"} {
				s.member(cluster, serves("v3"))
			}
		})
	}
}
