package fleet

import (
	"slices"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Clocks of clusters are apart from that of the hub, eu2 ahead and eu3 behind. Permits count as long as clocks are at most two minutes apart. Beyond that, the
// cluster gets none, and the hub says why. A clock that is set right again costs no time.
func TestClocksAreApart(t *testing.T) {
	s := newStory(t)
	t.Cleanup(func() { s.members["eu2"].ahead.Store(0); s.members["eu3"].ahead.Store(0) })
	s.steps = steadySteps
	s.installed("v1")
	within, beyond := 110*time.Second, 5*time.Minute
	s.skews["eu3"] = within
	s.members["eu2"].ahead.Store(int64(within))
	s.members["eu3"].ahead.Store(-int64(within))
	s.release("  release: {version: v2}\n  progressDeadline: 90s\n  waves: [{name: all, maxConcurrency: 3}]\n")
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseSucceeded, "Completed")

	s.members["eu2"].ahead.Store(int64(beyond))
	s.members["eu3"].ahead.Store(-int64(beyond))
	apart := func(skew time.Duration) func(api.FleetMember) bool {
		return func(m api.FleetMember) bool {
			return m.Status.ClockSkew != nil && (m.Status.ClockSkew.Duration-skew).Abs() < 30*time.Second
		}
	}
	s.awaitMember("eu2", "to be 5 minutes ahead", apart(beyond))
	s.awaitMember("eu3", "to be 5 minutes behind", apart(-beyond))
	s.release("  release: {version: v3}\n  waves: [{name: all, maxConcurrency: 3}]\n  budgets: {unreachable: 2}\n")
	s.deliver("v3", "eu1", "eu2", "eu3")
	status := s.phase(api.FleetPhaseSucceeded, "Completed")
	for _, cluster := range []string{"eu2", "eu3"} {
		if !slices.ContainsFunc(status.Attention, func(a api.FleetAttention) bool { return a.Cluster == cluster && a.Reason == "ClockSkew" }) {
			t.Errorf("the clock of %s is 5 minutes wrong, and status.attention says %+v", cluster, status.Attention)
		}
		s.member(cluster, awaitsPermit("v3"))
		s.members[cluster].ahead.Store(0)
	}
	for _, cluster := range []string{"eu2", "eu3"} {
		s.awaitMember(cluster, "to have the right time", apart(0))
		s.member(cluster, serves("v3"))
	}
}
