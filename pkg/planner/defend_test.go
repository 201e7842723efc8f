package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/rollout"
)

// An approver may write all of canaryStatus. The planner reads only an approval and a jump from it.
func TestNothingIsDecidedFromWhatCanaryStatusShows(t *testing.T) {
	taken := func(field, value string) []string {
		return []string{"canaryStatus." + field + ` "` + value + `" was taken back: it only shows what Sluice does; change the workload instead`}
	}
	cases := map[string]struct {
		edit  func(*given)
		notes []string
	}{
		"the stable revision":         {func(g *given) { g.Status.CanaryStatus.StableRevision = "hc" }, taken("stableRevision", "hc")},
		"the revision being released": {func(g *given) { g.Status.CanaryStatus.CanaryRevision = "v9" }, taken("canaryRevision", "v9")},
		"the hash of the plan":        {func(g *given) { g.Status.CanaryStatus.RolloutHash = "x" }, taken("rolloutHash", "x")},
		"the id of the release":       {func(g *given) { g.Status.CanaryStatus.ObservedRolloutID = "x" }, taken("observedRolloutID", "x")},
		"the label of the new pods":   {func(g *given) { g.Status.CanaryStatus.PodTemplateHash = "h1" }, nil},
		"the phase":                   {func(g *given) { g.Status.Phase = "Healthy" }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := aRelease().AtStep(2).Paused().Planned()
			before := *g.Status.DeepCopy()
			c.edit(g)
			want := outcome{State: rollout.StatePaused, Step: 2, Message: confirm2, Notes: c.notes}
			if diff := cmp.Diff(want, g.After(progressInterval).outcome()); diff != "" {
				t.Error(diff)
			}
			after := Plan(g.Seen, g.now).Status
			after.CanaryStatus.LastUpdateTime = before.CanaryStatus.LastUpdateTime
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
		})
	}
}
