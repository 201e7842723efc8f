package fleet

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Each cluster soaks at a hold by itself: the time before it came there, and the time in which it is unhealthy or silent, do not count.
func TestEachClusterSoaksAtTheHold(t *testing.T) {
	t.Parallel()
	held := func(names ...string) *given {
		return aFleet(t, 2, api.FleetWave{MaxConcurrency: number(2), HoldAt: &api.FleetHoldAt{Step: 1, Soak: minutes(10)}}).plan().answer(api.FleetReportAtHold, "", names...).plan()
	}
	const soaks, goesOn = "Soaking HoldSoak; c0 AtHold, c1 AtHold", "Progressing Wave; c0 Permitted, c1 Permitted"
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"both are there":                                                {held("c0", "c1"), soaks},
		"both have soaked":                                              {held("c0", "c1").after(10 * time.Minute).plan(), goesOn},
		"one is on its way":                                             {held("c0").after(10 * time.Minute).plan(), "Progressing Wave; c0 AtHold, c1 Permitted"},
		"one comes when the other has soaked":                           {held("c0").after(10*time.Minute).answer(api.FleetReportAtHold, "", "c1").plan().after(9 * time.Minute).plan(), soaks},
		"the later one has soaked too":                                  {held("c0").after(10*time.Minute).answer(api.FleetReportAtHold, "", "c1").plan().after(10 * time.Minute).plan(), goesOn},
		"one is unhealthy":                                              {held("c0", "c1").ill(true, "c0").plan().after(10 * time.Minute).plan(), "Soaking HoldSoak; c0 AtHold Unhealthy, c1 AtHold"},
		"one is healthy again":                                          {held("c0", "c1").ill(true, "c0").plan().after(5*time.Minute).ill(false, "c0").plan().after(9 * time.Minute).plan(), soaks},
		"one was healthy again for long enough":                         {held("c0", "c1").ill(true, "c0").plan().after(5*time.Minute).ill(false, "c0").plan().after(10 * time.Minute).plan(), goesOn},
		"one was unhealthy in between":                                  {held("c0", "c1").after(5*time.Minute).ill(true, "c0").plan().after(5*time.Minute).ill(false, "c0").plan().after(5 * time.Minute).plan(), goesOn},
		"one is unhealthy for an hour":                                  {held("c0", "c1").ill(true, "c0").plan().after(time.Hour).plan(), "Paused BudgetExceeded; c0 Failed Unhealthy, c1 AtHold"},
		"one is unhealthy after both have soaked":                       {held("c0", "c1").after(10*time.Minute).with(waitForApproval).plan().ill(true, "c0").plan().after(2 * time.Hour).plan(), "Waiting Approval; c0 AtHold, c1 AtHold"},
		"a person skips the soak":                                       {held("c0", "c1").ill(true, "c0").plan().command(api.FleetCommand{Action: api.FleetCommandPromote, SkipSoak: true}).plan(), goesOn},
		"a person goes on, and skips no soak":                           {held("c0", "c1").command(api.FleetCommand{Action: api.FleetCommandPromote}).plan(), soaks},
		"the hub lost c0, and that time does not count":                 {held("c0", "c1").after(time.Minute).silence("c0").after(9 * time.Minute).plan("c0").plan().after(8 * time.Minute).plan(), soaks},
		"the hub lost c0, and c0 has soaked since then":                 {held("c0", "c1").after(time.Minute).silence("c0").after(9 * time.Minute).plan("c0").plan().after(9 * time.Minute).plan(), goesOn},
		"the hub lost c0 for longer than six soaks":                     {held("c0", "c1").after(time.Minute).silence("c0").after(2 * time.Hour).plan("c0").plan().after(8 * time.Minute).plan(), soaks},
		"no executor of the hub heard c0, and that time does not count": {held("c0", "c1").after(10*time.Minute).silentSince("c0", 9*time.Minute).plan().after(8 * time.Minute).plan(), soaks},
		"no executor of the hub heard c0, and c0 has soaked since then": {held("c0", "c1").after(10*time.Minute).silentSince("c0", 9*time.Minute).plan().after(9 * time.Minute).plan(), goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.g.summary(); got != c.want {
				t.Errorf("%s\nwant %s\n%s", got, c.want, c.g.Status.Message)
			}
		})
	}
	if message := held("c0", "c1").ill(true, "c0").plan().after(time.Hour).plan().Status.Message; !strings.Contains(message, "(c0)") {
		t.Errorf("the message does not name the cluster: %s", message)
	}
}

// waitForApproval lets the hold of the first wave end by an approval.
func waitForApproval(g *given) {
	g.Status.Plan.Waves[0].HoldAt.Pause = &api.Pause{}
}

// silentSince lets the last silence of a cluster, which ends now, be that long.
func (g *given) silentSince(name string, d time.Duration) *given {
	m := g.Members[name]
	m.SilentFrom, m.HeardFrom = g.now.Add(-d), g.now
	g.Members[name] = m
	return g
}

func TestASoakHasALimit(t *testing.T) {
	t.Parallel()
	completed := func() *given {
		return aFleet(t, 1, api.FleetWave{Soak: minutes(10)}).plan().answer(api.FleetReportCompleted, "", "c0").plan()
	}
	for name, c := range map[string]struct {
		g    *given
		want string
	}{
		"unhealthy for less than six times the soak":               {completed().ill(true, "c0").plan().after(59 * time.Minute).plan(), "Soaking Soak; c0 Soaking Unhealthy"},
		"unhealthy for six times the soak":                         {completed().ill(true, "c0").plan().after(time.Hour).plan(), "Paused BudgetExceeded; c0 Failed Unhealthy"},
		"a person skips the soak":                                  {completed().command(api.FleetCommand{Action: api.FleetCommandPromote, SkipSoak: true}).plan(), "Succeeded Completed; c0 Completed"},
		"a person skips no soak":                                   {completed().command(api.FleetCommand{Action: api.FleetCommandPromote}).plan(), "Soaking Soak; c0 Soaking"},
		"no executor of the hub heard the cluster during its soak": {completed().after(10*time.Minute).silentSince("c0", 5*time.Minute).plan(), "Soaking Soak; c0 Soaking"},
		"no executor of the hub heard the cluster before its soak": {completed().silentSince("c0", time.Hour).after(10 * time.Minute).plan(), "Succeeded Completed; c0 Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.g.summary(); got != c.want {
				t.Errorf("%s\nwant %s\n%s", got, c.want, c.g.Status.Message)
			}
		})
	}
}

// A cluster that joins a wave changes no number of it, and clusters that follow keep to the concurrency of the last wave.
func TestWhoJoinsChangesNoNumbers(t *testing.T) {
	t.Parallel()
	half := &api.FleetBudgets{Failed: percent("50%")}
	g := aFleet(t, 2, api.FleetWave{MaxConcurrency: percent("50%"), Budgets: half}).plan()
	for i := 2; i < 6; i++ {
		g.Members[memberName(i)] = Member{}
		g.report(memberName(i), api.FleetReport{State: api.FleetReportHeld})
	}
	if got := g.plan().phases(); strings.Count(got, "Permitted") != 1 {
		t.Errorf("of two clusters, one may be under way, also after four have joined: %s", got)
	}
	followers := aFleet(t, 9, api.FleetWave{Percent: 80, MaxConcurrency: number(9), Budgets: &api.FleetBudgets{Unreachable: number(9)}}, api.FleetWave{MaxConcurrency: percent("50%")})
	var away []string
	for i := range 9 {
		name := memberName(i)
		followers.Members[name] = Member{Cordoned: true}
		away = append(away, name)
	}
	first := followers.plan().Status.Waves[0].Clusters[0]
	followers.Members[first] = Member{}
	followers.plan().answer(api.FleetReportCompleted, "", first).plan()
	for _, name := range away {
		followers.Members[name] = Member{}
	}
	if got := followers.plan(); strings.Count(got.phases(), "Permitted") != 2 || len(got.Status.Waves) != 2 || got.Status.Waves[1].Size != 1 {
		t.Errorf("the last wave has one cluster, so one follower may be under way beside its own: %s; %+v", got.summary(), got.Status.Waves)
	}
}
