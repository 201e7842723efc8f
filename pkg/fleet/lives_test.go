package fleet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// A fleet of 50 clusters lives through random faults and acts of users. After each act, the fleet must reach an end with the help of time, and the
// invariants must hold all the time.
func TestLongLivesOfFleets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*fleetLives) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			live(t, seed)
		})
	}
}

var fleetLives = flag.Int("fleet.lives", 6, "how many random lives of fleets of 50 clusters are played")

func live(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	canary := api.FleetWave{Percent: 4, HoldAt: &api.FleetHoldAt{Step: 1, Soak: minutes(5), Pause: &api.Pause{}}, Soak: minutes(10), Pause: &api.Pause{}}
	tenth := api.FleetWave{Percent: 10, MaxConcurrency: number(3), Soak: minutes(5)}
	everyone := api.FleetWave{MaxConcurrency: number(10)}
	budgets := &api.FleetBudgets{Failed: number(int32(random.IntN(3))), Unreachable: number(5), Unknown: number(3)}
	m := &model{
		members: 50, acts: 60, spec: demoSpec(t, budgets, canary, tenth, everyone), fails: true, third: true, stale: true, crashes: true, cuts: true, ails: true,
		user: []api.FleetCommandAction{api.FleetCommandPause, api.FleetCommandResume, api.FleetCommandRollback, api.FleetCommandAbort, api.FleetCommandReject,
			api.FleetCommandRetry, api.FleetCommandSkip, api.FleetCommandPromote, api.FleetCommandUnblock},
	}
	var done []string
	m.check = &checks{t: t, where: func() string { return "> " + strings.Join(done[max(0, len(done)-60):], "\n> ") }}
	w := newWorld(m)
	for step := range 20_000 {
		moves := w.helpful()
		if others := w.others(); len(others) > 0 && (len(moves) == 0 || random.IntN(100) == 0) {
			moves = others
		}
		if len(moves) == 0 {
			t.Logf("it ended after %d moves in phase %s (%s), with %d acts left", step, w.status.Phase, w.status.Reason, w.budget)
			return
		}
		next := moves[random.IntN(len(moves))]
		done = append(done, next.name)
		next.do(&w)
		if m.check.fails > 0 {
			return
		}
		if step == 19_999 {
			t.Errorf("the life has no end; phase %s (%s): %s\n%s", w.status.Phase, w.status.Reason, w.status.Message, m.check.where())
		}
	}
}
