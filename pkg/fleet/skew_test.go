package fleet

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Permits end by the clock of the cluster, and slots are free again by the clock of the hub.
func TestAClusterWithAWrongClockGetsNoPermit(t *testing.T) {
	t.Parallel()
	for skew, want := range map[time.Duration]api.FleetTargetPhase{
		0: api.FleetTargetPermitted, 2 * time.Minute: api.FleetTargetPermitted, -2 * time.Minute: api.FleetTargetPermitted,
		2*time.Minute + 1: api.FleetTargetDeferred, -2*time.Minute - 1: api.FleetTargetDeferred,
	} {
		g := aFleet(t, 1, everyone())
		g.Members["c0"] = Member{ClockSkew: skew}
		g.plan()
		if g.Status.Counts[want] != 1 {
			t.Errorf("a cluster whose clock is %s ahead: %v, want %s", skew, g.Status.Counts, want)
		}
		if attention := g.attention(); (want == api.FleetTargetDeferred) != strings.Contains(attention, "c0 ClockSkew +0s") {
			t.Errorf("a cluster whose clock is %s ahead needs: %q", skew, attention)
		}
	}
}
