package fleetview_test

import (
	"testing"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
)

func TestAViewIsSettledWhenClustersAreCountedAsTheyAreShown(t *testing.T) {
	t.Parallel()
	type counts = map[api.FleetTargetPhase]int32
	for name, c := range map[string]struct {
		counts  counts
		targets []api.FleetTargetPhase
		want    bool
	}{
		"they agree":                               {counts{"Completed": 1, "Failed": 1}, []api.FleetTargetPhase{"Failed", "Completed"}, true},
		"the FleetTargets are late":                {counts{"Completed": 2}, []api.FleetTargetPhase{"Completed", "Soaking"}, false},
		"the counts are late":                      {counts{"Soaking": 2}, []api.FleetTargetPhase{"Completed", "Soaking"}, false},
		"a FleetTarget is still to come":           {counts{"Permitted": 1}, nil, false},
		"clusters without a permit have no object": {counts{"Pending": 3, "AwaitingDelivery": 1, "Deferred": 1, "Absent": 1, "Completed": 1}, []api.FleetTargetPhase{"Completed"}, true},
		"nothing is counted":                       {nil, []api.FleetTargetPhase{"Completed"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := fleetview.View{Targets: []api.FleetTarget{}, Rollout: &api.FleetRollout{Status: api.FleetRolloutStatus{Counts: c.counts}}}
			for _, phase := range c.targets {
				v.Targets = append(v.Targets, api.FleetTarget{Status: api.FleetTargetStatus{Phase: phase}})
			}
			if got := v.Settled(); got != c.want {
				t.Errorf("it is settled: %v, want %v", got, c.want)
			}
		})
	}
}
