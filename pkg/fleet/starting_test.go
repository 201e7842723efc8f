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
