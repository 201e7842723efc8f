package fleet

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

func percent(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }

// A command without an effect is refused, and the transition says why and what helps.
func TestACommandWithoutEffectIsRefused(t *testing.T) {
	t.Parallel()
	retry := func(names ...string) api.FleetCommand {
		return api.FleetCommand{Action: api.FleetCommandRetry, Clusters: names}
	}
	one := func() *given { return aFleet(t, 1, everyone()) }
	timed := func() *given {
		seconds := int32(600)
		return aFleet(t, 1, api.FleetWave{Pause: &api.Pause{Duration: &seconds}}).plan().answer(api.FleetReportCompleted, "", "c0").plan()
	}
	aborted := func() *given { return one().plan().command(api.FleetCommand{Action: api.FleetCommandAbort}).plan() }
	for name, c := range map[string]struct {
		g       *given
		command api.FleetCommand
		want    string
	}{
		"a retry of a cluster that has completed": {one().plan().answer(api.FleetReportCompleted, "", "c0").plan(), retry("c0"), "cluster c0 is Completed: there is nothing to retry"},
		"a retry of a cluster under way":          {one().plan().answer(api.FleetReportProgressing, "", "c0").plan(), retry("c0"), "cluster c0 is Progressing: there is nothing to retry"},
		"a retry of a lost cluster": {one().plan().silence("c0").after(time.Minute).plan("c0"), retry("c0"),
			"cluster c0 is Unknown: the hub has lost it. Bring it back. To pass over it, type: sluice fleet skip checkout c0 -n shop"},
		"a retry of a cluster without a permit that runs the version": {
			one().report("c0", api.FleetReport{State: api.FleetReportIdle, Unpermitted: api.FleetUnpermittedNotHeld, Stable: api.FleetVersion{Version: "v2", Revision: "h2"}}).plan(),
			retry("c0"), "cluster c0 is Unpermitted: it runs the version without a permit"},
		"a retry of one cluster of two": {
			aFleet(t, 2, api.FleetWave{MaxConcurrency: number(2), Budgets: &api.FleetBudgets{Failed: number(1)}}).plan().answer(api.FleetReportFailed, "RolledBack", "c0").plan(), retry("c0", "c1"),
			"cluster c1 is Permitted: there is nothing to retry"},
		"a retry of a cluster that is not there": {one().plan(), retry("c9"), `"c9" is no cluster of the release; list them with: sluice fleet targets checkout -n shop`},
		"a skip of a cluster that is not there":  {one().plan(), api.FleetCommand{Action: api.FleetCommandSkip, Clusters: []string{"c9"}}, `"c9" is no cluster of the release`},
		"an approval of a pause with a duration": {timed(), api.FleetCommand{Action: api.FleetCommandApprove}, "the pause of wave w1 ends by itself; to go on now, type: sluice fleet promote checkout -n shop --reason WHY"},
		"a retry of an aborted release":          {aborted(), retry("c0"), "the release is aborted; to begin it again, type: sluice fleet resume checkout -n shop"},
		"a pause of an aborted release":          {aborted(), api.FleetCommand{Action: api.FleetCommandPause}, "the release is aborted; "},
		"a promotion of an aborted release":      {aborted(), api.FleetCommand{Action: api.FleetCommandPromote}, "the release is aborted; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := c.g.Status
			c.g.command(c.command)
			next := Plan(c.g.Seen, c.g.now).Status
			found := ""
			for _, transition := range next.Transitions {
				if transition.Seq > before.TransitionSeq && transition.Reason == "CommandRefused" && transition.Actor == "kim" {
					found = transition.Message
				}
			}
			if want := "the command " + string(c.command.Action) + " was refused: " + c.want; !strings.HasPrefix(found, want) || next.Command != nil {
				t.Errorf("the transition says %q, want %q", found, want)
			}
			if len(next.Approvals)+len(next.Retries)+len(next.Skipped) > 0 || next.Paused || next.Promoted > 0 {
				t.Errorf("the command has an effect: %+v", next)
			}
		})
	}
}

// A retry takes back a skip, also in a wave that has passed. A cluster that is still going back does so first.
func TestARetryTakesBackASkip(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 2, api.FleetWave{MaxConcurrency: number(1)}).plan()
	names := sortedNames(g.Targets)
	if len(names) != 1 {
		t.Fatalf("permits are given to %v", names)
	}
	skipped, other := names[0], map[string]string{"c0": "c1", "c1": "c0"}[names[0]]
	g.command(api.FleetCommand{Action: api.FleetCommandSkip, Clusters: []string{skipped}}).plan().answer(api.FleetReportCompleted, "", other).plan()
	for _, step := range []struct {
		command api.FleetCommand
		answer  string
		want    api.FleetTargetPhase
	}{
		{want: api.FleetTargetSkipped},
		{command: api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{skipped}}, want: api.FleetTargetProgressing},
		{answer: skipped, want: api.FleetTargetPermitted},
	} {
		if step.command.Action != "" {
			g.command(step.command)
		}
		if step.answer != "" {
			g.answer(api.FleetReportCompleted, "", step.answer)
		}
		if g.plan(); g.Targets[skipped].Status.Phase != step.want || g.Status.Phase != api.FleetPhaseSucceeded {
			t.Fatalf("it is %q, want %s to be %s", g.summary(), skipped, step.want)
		}
	}
	if len(g.Status.Skipped) > 0 {
		t.Errorf("it still passes over %v", g.Status.Skipped)
	}
}

// One cluster of a small wave may be offline by default. The budgets of the plan itself count as they are.
func TestOneClusterOfASmallWaveMayBeOffline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clusters int
		budgets  *api.FleetBudgets
		offline  []string
		want     api.FleetPhase
	}{
		"one of three":                        {3, nil, []string{"c2"}, api.FleetPhaseSucceeded},
		"two of three":                        {3, nil, []string{"c1", "c2"}, api.FleetPhaseStalled},
		"one of twenty":                       {20, nil, []string{"c2"}, api.FleetPhaseSucceeded},
		"two of twenty":                       {20, nil, []string{"c1", "c2"}, api.FleetPhaseSucceeded},
		"three of twenty":                     {20, nil, []string{"c1", "c2", "c3"}, api.FleetPhaseStalled},
		"the only one":                        {1, nil, []string{"c0"}, api.FleetPhaseStalled},
		"one of three, with 10% in the plan":  {3, &api.FleetBudgets{Unreachable: percent("10%")}, []string{"c2"}, api.FleetPhaseStalled},
		"one of three, with 0 in the plan":    {3, &api.FleetBudgets{Unreachable: number(0)}, []string{"c2"}, api.FleetPhaseStalled},
		"one of three, with 34 % in the plan": {3, &api.FleetBudgets{Unreachable: percent("34%")}, []string{"c2"}, api.FleetPhaseSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := aFleet(t, c.clusters, api.FleetWave{MaxConcurrency: number(20), Budgets: c.budgets}).silence(c.offline...).after(time.Hour).plan(c.offline...)
			for _, name := range sortedNames(g.Targets) {
				g.answer(api.FleetReportCompleted, "", name)
			}
			if g.plan(c.offline...); g.Status.Phase != c.want {
				t.Errorf("it is %s: %s", g.summary(), g.Status.Message)
			}
		})
	}
}

func TestOneIsSingular(t *testing.T) {
	t.Parallel()
	g := aFleet(t, 1, api.FleetWave{Soak: minutes(10)}).plan().answer(api.FleetReportCompleted, "", "c0").plan()
	if want := "1 cluster of wave w1 soaks"; g.Status.Message != want {
		t.Errorf("it says %q, want %q", g.Status.Message, want)
	}
	g = aFleet(t, 7, api.FleetWave{MaxConcurrency: number(7), Soak: minutes(10)}).plan()
	g.command(api.FleetCommand{Action: api.FleetCommandAbort}).plan()
	if want := "The release is aborted: 7 clusters have not answered: c0, c1, c2, c3, c4 and 2 others"; g.Status.Message != want {
		t.Errorf("it says %q, want %q", g.Status.Message, want)
	}
}
