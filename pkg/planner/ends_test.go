package planner

import (
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// end is where a Rollout gets to after a request, and how many runs of executors that takes.
type end struct {
	runs           int
	gone           bool
	state          rollout.State
	step, template int8
	others         int8 // pods of other versions than the template's
	releases       int8 // the version that is released, or was the last one
	waits          bool // for pods that are never ready
}

func (w *world) end() end {
	return end{gone: w.gone, state: w.state(), step: w.step(), template: w.template, others: w.running() - w.pods[w.template],
		releases: versionOf(machine(&w.status).CanaryRevision), waits: w.waits()}
}

// request is what a user may ask for at any moment, and must get.
type request struct {
	name string
	// ask reports whether there was anything to ask for.
	ask func(*world) bool
	// met judges the end against the world in which it was asked for.
	met func(before *world, got end) bool
	// once: no user gives a second approval.
	once bool
}

// Runs of executors, and moves of everybody, that a request may take.
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
			if w.uid == 0 || w.unsettled() || w.model.beside() && (w.letGo() || !w.state().Releasing()) {
				return false // the controller owns the other pods, or the stable version is not known yet
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
				before.model.beside() && got.state == rollout.StateIdle && got.others == 0 // which takes no other version in its steps, and has it rolled back
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

// workloadDisowned reports whether a release is over or called off, and the workload on its way to its owner.
func (w *world) letGo() bool {
	return w.state() == rollout.StateFinalising || w.state() == rollout.StateDisabled || w.state() == rollout.StateTerminated
}

// waitsForApproval reports whether an approval is all that the release under way waits for.
func (w *world) waitsForApproval() bool {
	c, next := w.status.Common(), int32(w.step())+1
	if int(next) > len(w.model.spec.Steps) {
		next = api.NoNextStep
	}
	return w.state() == rollout.StatePaused && c.CurrentStepState == api.StepPaused && c.NextStepIndex == next &&
		!w.against() && !w.heldFor(rollout.ReasonFullStep) && w.decided() == "" && w.status.Command == nil &&
		machine(&w.status).PlanHash == w.model.plan(w.revised).Hash && !w.disabled && !w.deleting && !w.hidden && !w.empty && !w.unsettled() && version(w.template) == machine(&w.status).CanaryRevision
}

// keep puts a state on the list of those in which everything is asked for: all of a small model, of others evenly so many.
func (e *explorer) keep(k known) {
	if k.id%e.stride != 0 {
		return
	}
	if e.asked = append(e.asked, k); len(e.asked) > e.most {
		e.stride *= 2
		e.asked = slices.DeleteFunc(e.asked, func(k known) bool { return k.id%e.stride != 0 })
	}
}

// checkRequests asks for everything in every state that is kept, and follows the helpful moves to the end.
func (e *explorer) checkRequests(m *model) {
	for _, r := range requests() {
		reached := map[string]end{}
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

// follow goes where everybody helps to get, up to a state from which the end is known.
func (r request) follow(w world, reached map[string]end, trace *[]string) end {
	type visit struct {
		key  string
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

// asksAgain reports whether the next move is a person's who decides about the release.
func asksAgain(m move) bool {
	return strings.HasPrefix(m.name, "an approval") || m.name == "the release is tried again"
}
