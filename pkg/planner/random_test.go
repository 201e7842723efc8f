package planner

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// TestMain makes all runs draw the same values, unless a flag of rapid asks for others.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	if !asked {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Long lives of one Rollout: any number of releases with all moves of the exploration, failing pods and arbitrary users. The same invariants hold.
// With the help of all actors, the machine becomes idle from every state.
//
// The lives are the same each time, so no change fails because of a life that another run would not try. A flag of rapid asks for others. A failing
// test prints the seed that repeats it, after rapid has shortened it:
//
//	go test ./pkg/planner -run LongLives -rapid.checks=3000
//	go test ./pkg/planner -run LongLives -rapid.seed=2
//	go test ./pkg/planner -run LongLives -rapid.seed=2
func TestLongLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models()).Draw(t, "model")
		m.acts, m.check = 100, newChecks()
		w := newWorld(m)
		var trace []string
		planned := w.failed
		m.check.where = func() string { return m.name + "\n    " + strings.Join(trace, "\n    ") }
		do := func(next move) {
			trace = append(trace, next.name)
			m.check.doing = next.name
			before := w
			next.do(&w)
			if next.name == "plan" {
				planned = w.failed
			}
			if strings.HasPrefix(next.name, "write ") && planned == w.failed { // a pod that fails after the decision is not the executor's fault
				m.check.serves(&before, &w)
			}
		}
		// rapid prefers small numbers, so its own lives would be short. Here it only shrinks the length.
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 300 - rapid.IntRange(0, 299).Draw(t, "shorter by") {
			if w.gone {
				break
			}
			if random.IntN(100) == 0 && !w.run.active() { // no run lasts that long
				do(clocks()[random.IntN(2)])
			}
			if next := w.anything(random); next != nil {
				do(*next)
				m.check.events(&w)
			}
			stopAtFinding(t, m.check)
		}
		for helped := 0; !w.gone; helped++ {
			helping := w.moves()
			if len(helping) == 0 {
				break
			}
			if helped > 400 {
				m.check.fail("RestReached", "no rest after %d helpful moves", helped)
			}
			do(helping[0])
			stopAtFinding(t, m.check)
		}
		m.check.rest(&w)
		stopAtFinding(t, m.check)
	})
}

// anything picks the next move: mostly a move that continues the release, and rarely the end of the Rollout.
func (w *world) anything(random *rand.Rand) *move {
	all := w.moves()
	switch n := random.IntN(100); {
	case n < 15 || len(all) == 0:
		all = slices.DeleteFunc(w.users(), func(m move) bool { return m.name == deletion && n > 0 })
	case n < 18:
		all = w.accidents()
	case n < 22 && len(w.run.writes) > 0:
		return &move{"crash", func(w *world) { w.run = run{} }}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[random.IntN(len(all))]
}

func stopAtFinding(t *rapid.T, c *checks) {
	for _, name := range invariants() {
		if found := c.found[name]; found != "" {
			t.Fatalf("%s: %s", name, found)
		}
	}
}

// clocks lists jumps of an executor's clock.
func clocks() []move {
	return []move{
		{"the clock goes back by ten seconds", func(w *world) { w.now, w.left, w.back = w.now-10, w.left-10, w.back+10 }}, // the traffic left as long ago as before
		{"the clock jumps by an hour", func(w *world) { w.now += 3600; w.timeIsUp() }},
	}
}

// losses lists pods that fail and pods that go: a ReplicaSet replaces those at once, so they only become unready.
func (w *world) losses() []move {
	var moves []move
	for v := int8(1); v <= 3; v++ {
		if w.pods[v] > w.raw[v] {
			moves = append(moves, move{fmt.Sprintf("a pod of v%d fails", v), func(w *world) {
				w.raw[v]++
				w.failed++
				w.touched(onWorkload)
			}})
		}
		if w.pods[v] > 0 && w.model.lever != rollout.MechanismRollingUpdate {
			moves = append(moves, move{fmt.Sprintf("a pod of v%d is lost", v), func(w *world) { w.lose(v) }})
		}
	}
	return moves
}

// lose removes a pod together with its node. Without its last pod, a Service may have no pods of a version, which counts like force.
func (w *world) lose(v int8) {
	w.failed++
	if v != w.template {
		w.lost++
	}
	if w.model.orders {
		w.at[slices.Index(w.at[:], v)] = 0
	}
	w.pods[v]--
	w.raw[v] = min(w.raw[v], w.pods[v])
	if w.pods[v] == 0 {
		w.forced = 2
	}
	w.touched(onWorkload)
}

// accidents lists moves that the exploration leaves out to stay small.
func (w *world) accidents() []move {
	var moves []move
	if w.canary.ready > 0 {
		moves = append(moves, move{"a canary pod fails", func(w *world) { w.canary.ready--; w.touched(onCanary) }})
	}
	if w.model.inPlace() && !w.model.beside() {
		moves = append(moves, w.losses()...)
	}
	if w.canary.version != 0 && !w.canary.deleting {
		moves = append(moves, move{"somebody deletes the canary", func(w *world) { w.canary.deleting = true; w.touched(onCanary) }})
	}
	for i, s := range w.services {
		if s.canary != 0 {
			moves = append(moves, move{"somebody deletes a canary Service", func(w *world) { w.services[i].canary = 0; w.touched(onCanaryService0 << i) }})
		}
		if s.pin != 0 {
			moves = append(moves, move{"somebody unpins a stable Service", func(w *world) { w.services[i].pin = 0; w.touched(onService0 << i) }})
		}
	}
	if w.held {
		moves = append(moves, move{"somebody sets the held workload free", func(w *world) { w.held, w.stopped, w.forced = false, false, 2; w.touched(onWorkload) }})
	}
	if w.status.Common() != nil {
		moves = append(moves, move{"somebody writes other revisions into canaryStatus", func(w *world) {
			w.edit(func(c *api.CommonStatus) { c.StableRevision, c.RolloutHash = "h3", "x" })
			*rollout.StatusRevision(&w.status) = "v1"
		}})
	}
	for i := range w.model.routes {
		if w.routed[i] != 0 {
			moves = append(moves, move{"somebody restores a route", func(w *world) { w.routed[i], w.accepted[i] = 0, false; w.touched(onRoute0 << i) }})
		}
	}
	return moves
}
