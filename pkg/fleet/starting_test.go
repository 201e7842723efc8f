package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

// A hub that has just started gives no permit. A release that has succeeded before stays so, and the next one does not count as succeeded.
func TestAReleaseThatHasSucceededStaysSoWhenTheHubStarts(t *testing.T) {
	t.Parallel()
	all := []string{"c0", "c1"}
	succeeded := func() *given {
		return aFleet(t, 2, everyone()).plan().answer(api.FleetReportCompleted, "", all...).plan().after(time.Minute)
	}
	next := succeeded().startedNow(all...)
	next.Release.Version = "v3"
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"no member is heard":        {succeeded().startedNow(all...).plan(all...), "Succeeded Completed; c0 Completed, c1 Completed"},
		"all members are heard":     {succeeded().startedNow(all...).plan(all...).plan(), "Succeeded Completed; c0 Completed, c1 Completed"},
		"another release has begun": {next.plan(all...), "Progressing Starting; c0 Pending Unreachable, c1 Pending Unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.g.summary()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, c.g.Status.Message)
			}
		})
	}
}

// Two executors work on a release, and one of them has just started. It says so once. After that, it writes no phase over that of the other one, which knows more.
func TestTheHubStartsBesideAnExecutorThatKnowsMore(t *testing.T) {
	t.Parallel()
	all := []string{"c0", "c1"}
	starts := func(g *given) *given { return g.startedNow(all...).plan(all...) }
	waits := func() *given {
		wave := everyone()
		wave.Pause = &api.Pause{}
		return aFleet(t, 2, wave).plan().answer(api.FleetReportCompleted, "", all...).plan().after(time.Minute)
	}
	corrected := func() *given { return starts(waits()).plan() }
	next := corrected()
	next.Release.Version = "v3"
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"it says that it starts":                 {starts(waits()), "Progressing Starting; c0 Completed, c1 Completed"},
		"the other executor corrects it":         {corrected(), "Waiting Approval; c0 Completed, c1 Completed"},
		"it leaves the phase as it is":           {starts(corrected()), "Waiting Approval; c0 Completed, c1 Completed"},
		"it starts again":                        {starts(corrected().after(time.Second)), "Progressing Starting; c0 Completed, c1 Completed"},
		"it follows an approval":                 {starts(corrected().command(api.FleetCommand{Action: api.FleetCommandApprove})), "Progressing Starting; c0 Completed, c1 Completed"},
		"it begins the release of a new version": {starts(next), "Progressing Starting; c0 Pending Unreachable, c1 Pending Unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.g.summary()); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, c.g.Status.Message)
			}
		})
	}
}
