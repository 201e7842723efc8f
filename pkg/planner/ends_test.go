package planner

import (
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// end is the final state of a Rollout after a request, and the number of the executors' runs until then.
type end struct {
	runs           int
	gone           bool
	state          rollout.State
	step, template int8
	others         int8 // pods of other versions than the version of the template
	releases       int8 // the version that is being released, or was released last
	waits          bool // for pods that never become ready
}

func (w *world) end() end {
	return end{gone: w.gone, state: w.state(), step: w.step(), template: w.template, others: w.running() - w.pods[w.template],
		releases: versionOf(machine(&w.status).CanaryRevision), waits: w.waits()}
}

// request is a request that a user may make at any moment and that the executor must fulfil.
type request struct {
	name string
	// ask makes the request, and reports whether a user could make it.
	ask func(*world) bool
	// met checks the end against the world at the time of the request.
	met func(before *world, got end) bool
	// once: no user gives another approval afterwards.
	once bool
}

// Limits for the runs of executors and for the moves of all actors after a request.
const (
	mostRuns  = 40
	mostMoves = 400
)

func requests() []request {
	return []request{
		{name: "an approval", once: true, ask: func(w *world) bool {
			if w.status.Common() == nil || machine(&w.status).Epoch == 0 {
				return false
			}
			w.approve()
			return true
		}, met: func(before *world, got end) bool {
			next := (got.state == rollout.StatePaused || got.state == rollout.StateAnalysis) && got.step > before.step()
			return !before.waitsForApproval() || next || got.state == rollout.StateIdle && got.template == before.template && got.others == 0
		}},
		{name: "a rollback", ask: func(w *world) bool {
			if w.uid == 0 || w.unsettled() || w.takenBack() || w.model.beside() && (w.letGo() || !w.state().Releasing()) {
				return false // the other version belongs to its controller, or the stable version is not known yet
			}
			if stable := versionOf(machine(&w.status).StableRevision); stable != w.template {
				w.change(stable)
			}
			return true
		}, met: func(before *world, got end) bool {
			stable := got.template == versionOf(machine(&before.status).StableRevision) && got.others == 0
			return before.deleting && got.gone || stable && (before.disabled && got.state == rollout.StateDisabled || got.state == rollout.StateIdle)
		}},
		{name: "a deletion", ask: func(w *world) bool {
			w.deleting, w.gone = true, !w.finalizer
			w.touched(onRollout)
			return true
		}, met: func(_ *world, got end) bool { return got.gone }},
		{name: "a newer version", ask: func(w *world) bool {
			if w.model.broken == 0 || w.uid == 0 || w.unsettled() || w.template == 3 {
				return false
			}
			w.change(3)
			return true
		}, met: func(before *world, got end) bool {
			return before.deleting && got.gone || got.state == rollout.StateDisabled || got.template == 3 && got.releases == 3 ||
				before.model.beside() && got.state == rollout.StateIdle && got.others == 0 // a blue-green release takes no other version in its steps, and its user rolls it back
		}},
		{name: "disabling", ask: func(w *world) bool {
			w.disabled = true
			w.touched(onRollout)
			return true
		}, met: func(before *world, got end) bool {
			return before.deleting && got.gone || got.state == rollout.StateDisabled
		}},
	}
}

// letGo reports whether a release is over or called off, and the executor releases the workload.
func (w *world) letGo() bool {
	return w.state() == rollout.StateFinalising || w.state() == rollout.StateDisabled || w.state() == rollout.StateTerminated
}

// waitsForApproval reports whether the current release waits for an approval only.
func (w *world) waitsForApproval() bool {
	c, next := w.status.Common(), int32(w.step())+1
	if int(next) > len(w.agreed().Steps) {
		next = api.NoNextStep
	}
	return w.state() == rollout.StatePaused && c.CurrentStepState == api.StepPaused && c.NextStepIndex == next &&
		!w.against() && !w.heldFor(rollout.ReasonFullStep) && w.decided() == "" && w.status.Command == nil &&
		machine(&w.status).PlanHash == w.model.plan(w.revised).Hash && !w.disabled && !w.deleting && !w.hidden && !w.empty && !w.unsettled() && version(w.template) == machine(&w.status).CanaryRevision && !w.takenBack()
}

// keep selects states for requests: all states of a small model, and evenly distributed states of other models.
func (e *explorer) keep(k known) {
	if k.id%e.stride != 0 {
		return
	}
	if e.asked = append(e.asked, k); len(e.asked) > e.most {
		e.stride *= 2
		e.asked = slices.DeleteFunc(e.asked, func(k known) bool { return k.id%e.stride != 0 })
	}
}

// checkRequests makes every request in every selected state, and follows the helpful moves to the end.
func (e *explorer) checkRequests(m *model) {
	for _, r := range requests() {
		reached := map[stateKey]end{}
		for _, k := range e.asked {
			w := k.world
			m.check.doing = "asking for " + r.name
			var trace []string
			m.check.where = func() string { return e.path(k.id) + "\n    " + r.name + "\n    " + strings.Join(trace, "\n    ") }
			if w.gone || !r.ask(&w) {
				continue
			}
			got := r.follow(w, reached, &trace)
			e.runs = max(e.runs, got.runs)
			m.check.that(got.runs <= mostRuns, "RequestsReachTheirEnd", "%s takes more than %d runs", r.name, mostRuns)
			m.check.that(got.waits || r.met(&k.world, got), "RequestsReachTheirEnd", "%s ends in %+v", r.name, got)
		}
	}
}

// follow follows the moves of helpful users and controllers, up to a state with a known end.
func (r request) follow(w world, reached map[stateKey]end, trace *[]string) end {
	type visit struct {
		key  stateKey
		runs int
	}
	var walk []visit
	var got end
	runs := 0
	for {
		key := w.key()
		if known, ok := reached[key]; ok {
			got = known
			break
		}
		walk = append(walk, visit{key, runs})
		var helping []move
		if w.gone {
			w.model.check.rest(&w)
		} else {
			helping = w.moves()
		}
		if len(helping) == 0 || r.once && asksAgain(helping[0]) {
			got = w.end()
			break
		}
		if len(walk) > mostMoves {
			runs += mostRuns + 1
			got = w.end()
			break
		}
		if helping[0].name == "plan" {
			runs++
		}
		*trace = append(*trace, helping[0].name)
		helping[0].do(&w)
	}
	for _, v := range walk {
		at := got
		at.runs += runs - v.runs
		reached[v.key] = at
	}
	got.runs += runs
	return got
}

// asksAgain reports whether the next move is a user's decision about the release.
func asksAgain(m move) bool {
	return strings.HasPrefix(m.name, "an approval") || m.name == "the release is tried again"
}
