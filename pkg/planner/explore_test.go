package planner

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// explorer visits every state that a model can reach. A state is a world without its counters: two worlds with the same key behave alike.
type explorer struct {
	name    string
	ids     map[stateKey]int32
	parents []int32
	names   []string
	helpful []int32 // the next state if every actor helps; -1 if the world is idle
	todo    []known
	after   world // scratch space of expand: the world after one move

	asked  []known // states in which all requests are made
	stride int32
	most   int
	runs   int // the highest number of runs after a request
}

type known struct {
	id    int32
	world world
}

// mostActs is the maximum number of acts beyond polite approvals that users have in an exploration. Three acts allow a new version, another new
// version, and an act that crosses it.
const mostActs = 3

// everyState is more than the states of any model, so explorations of three steps that do not change make all requests in every state.
const everyState = 1 << 20

var (
	actsOfUsers = flag.Int("rollout.acts", 1, "how many acts beyond polite approvals users have at most in an exploration, up to 3")
	askedStates = flag.Int("rollout.asked", 40, "in about how many states of each model of one or two steps everything is asked for")
)

func explore(m *model) *explorer {
	e := &explorer{name: m.name, ids: map[stateKey]int32{}, stride: 1, most: *askedStates}
	if len(m.spec.Steps) > 2 && m.other == nil {
		e.most = everyState
	}
	first := newWorld(m)
	e.reach(&first, -1, "start")
	for len(e.todo) > 0 {
		last := len(e.todo) - 1
		next := e.todo[last]
		e.todo[last] = known{} // the garbage collector frees its world
		e.todo = e.todo[:last]
		e.expand(next)
	}
	e.checkLiveness(m)
	e.checkRequests(m)
	return e
}

// reach returns the id of a state, and queues a new state.
func (e *explorer) reach(w *world, from int32, name string) int32 {
	key := w.key()
	if id, ok := e.ids[key]; ok {
		return id
	}
	id := int32(len(e.parents))
	e.ids[key] = id
	e.parents, e.names, e.helpful = append(e.parents, from), append(e.names, name), append(e.helpful, -1)
	e.todo = append(e.todo, known{id, *w})
	return id
}

func (e *explorer) expand(k known) {
	e.keep(k)
	w := &k.world
	if w.gone {
		w.model.check.rest(w)
		return
	}
	w.model.check.where = func() string { return e.path(k.id) }
	w.model.check.events(w)
	w.model.check.capacity(w)
	helping := w.moves()
	for i, m := range slices.Concat(helping, w.mishaps()) {
		e.after = *w
		w.model.check.doing = m.name
		m.do(&e.after)
		if i < len(helping) {
			w.model.check.serves(w, &e.after)
		}
		id := e.reach(&e.after, k.id, m.name)
		if i == 0 && len(helping) > 0 {
			e.helpful[k.id] = id
		}
	}
}

// moves lists the next possible moves, except mishaps. The first is the move of helpful actors. Without any moves, the world is idle.
func (w *world) moves() []move {
	if len(w.run.writes) > 0 {
		return append([]move{{"write " + w.run.writes[0].String(), (*world).advance}}, w.environment()...)
	}
	var moves []move
	if w.paused {
		moves = append(moves, move{"the Rollout is resumed", func(w *world) { w.paused = false }})
	}
	moves = append(moves, w.environment()...)
	if planned := *w; planned.plan() {
		if w.cosmetic(&planned.run) {
			w.status = *planned.run.writes[0].status
			w.model.check.settled(w)
		} else {
			moves = append(moves, move{"plan", func(w *world) { *w = planned }})
		}
	}
	w.show()
	if w.empty && w.calm(moves) {
		moves = append(moves, move{"the workload is scaled up again", (*world).scaleUp})
	}
	moves = append(moves, w.helpers()...)
	if len(moves) == 0 {
		w.model.check.rest(w)
	}
	return moves
}

// show writes progress that was held back for a moment, as the executor does at its wake time.
func (w *world) show() {
	later := *w
	later.now = max(w.now, int(writtenAt(w.status).Sub(start)/time.Second)) + int(progressInterval/time.Second)
	if later.plan() && later.cosmetic(&later.run) {
		w.status = *later.run.writes[0].status
	}
}

// mishaps lists crashes and the acts of users.
func (w *world) mishaps() []move {
	if len(w.run.writes) == 0 {
		return w.users()
	}
	return append(w.users(), move{"crash", func(w *world) { w.run = run{} }})
}

// helpers lists the acts of users that continue a release, and the passage of time.
func (w *world) helpers() []move {
	if w.status.Sluice == nil {
		return nil
	}
	moves := w.measures()
	moves = append(moves, w.hubHelps()...)
	if w.refusedByRelease() {
		moves = append(moves, move{"the refused version is rolled back", func(w *world) { w.change(versionOf(machine(&w.status).StableRevision)) }})
	}
	if w.heldFor(rollout.ReasonFullStep) && !w.agrees {
		moves = append(moves, move{"the owner accepts that steps replace all pods", (*world).agree})
	}
	if w.state() == rollout.StateAborted && w.status.Command == nil && !w.retryRefused() {
		moves = append(moves, move{"the release is tried again", func(w *world) { w.command(api.CommandRetry) }})
	}
	if (w.state() == rollout.StatePaused || w.state() == rollout.StateAnalysis) && w.against() && w.status.Command == nil {
		moves = append(moves, move{"an approval by force", func(w *world) { w.command(api.CommandApprove) }})
	}
	if w.state() == rollout.StatePaused && !w.against() && (w.agreed().Steps[w.step()-1].Manual || w.decided() == api.DecisionReject) && w.status.Common().CurrentStepState == api.StepPaused {
		moves = append(moves, move{"an approval", (*world).approve})
	}
	if at := w.status.Sluice.WakeAt; at != nil && at.After(w.time()) {
		moves = append(moves, move{"time passes", func(w *world) {
			if w.state() == rollout.StatePaused || w.state() == rollout.StateAnalysis {
				w.allow(w.step() + 1)
			}
			for w.time().Before(at.Time) {
				w.now++
			}
		}})
	}
	return moves
}

// cosmetic reports whether a run only updates the display part of the status.
func (w *world) cosmetic(r *run) bool {
	return len(r.writes) == 1 && r.writes[0].action == nil &&
		string(w.appendStatus(nil, &w.status)) == string(w.appendStatus(nil, r.writes[0].status))
}

func (r write) String() string {
	if r.action == nil {
		return "status " + r.status.Sluice.State
	}
	return r.action.String()
}

// stateKey identifies a state. It has no pointers, so the garbage collector does not scan the keys of millions of states.
type stateKey [sha256.Size]byte

func (w *world) key() stateKey {
	b := make([]byte, 0, 512)
	b = appendBools(b, w.gone, w.deleting, w.finalizer, w.disabled, w.paused, w.stopped, w.held, w.adopted, w.hidden, w.canary.deleting, w.accepted[0], w.accepted[1],
		w.trusted[1], w.trusted[2], w.trusted[3])
	b = append(b, byte(w.uid), byte(w.born), byte(w.template), byte(w.pods[1]), byte(w.pods[2]), byte(w.pods[3]), byte(w.routed[0]), byte(w.routed[1]), byte(w.budget), byte(w.allowed), byte(min(w.now-w.left, graceOfModels)), byte(w.canary.version), byte(w.lingering), byte(w.stoppedVersion),
		byte(w.canary.replicas), byte(w.canary.ready))
	b = appendBools(b, w.existed[1], w.existed[2], w.existed[3], w.inflated[1], w.inflated[2], w.inflated[3], w.parked, w.backwards, w.synced, w.empty, w.hasty, w.unscaled, w.widened, w.agrees)
	b = append(b, byte(w.made[1]), byte(w.made[2]), byte(w.made[3]), byte(w.room), byte(w.forced))
	b = append(b, byte(w.raw[1]), byte(w.raw[2]), byte(w.raw[3]), byte(w.strategy.Unavailable), byte(w.strategy.Surge), byte(w.strategy.SurgePercent), byte(w.keep), byte(w.current), byte(w.at[0]), byte(w.at[1]), byte(w.at[2]), byte(w.found))
	if w.state().InStep() && machine(&w.status).RollbackReplicas > 0 {
		b = append(b, byte(w.came))
	}
	for _, s := range w.services {
		b = appendBools(append(b, byte(s.pin), byte(s.canary), byte(s.endpoints)), s.astray, s.strayed)
	}
	b = append(appendBools(b, w.shrunk, w.revised, w.routedBy[0], w.routedBy[1]), byte(w.told), byte(w.wants))
	if w.model.names {
		b = w.appendNamed(b)
	}
	if w.model.fleet {
		b = w.appendHub(b)
	}
	b = w.appendStatus(b, &w.status)
	b = append(b, byte(w.run.moved), byte(w.run.moved>>8))
	for _, next := range w.run.writes {
		if next.action == nil {
			b = w.appendStatus(append(b, '#'), next.status)
		} else {
			b = append(append(b, '!'), next.action.String()...)
		}
	}
	if acts := w.run.acts; acts != nil {
		b = w.appendStatus(append(b, '+'), &acts.Status)
	}
	if w.run.moved != 0 && w.run.acts != nil {
		view := w.run.view.key()
		b = append(append(b, '<'), view[:]...)
	}
	return sha256.Sum256(b)
}

// appendStatus appends the parts of the status that matter to the machine, with times and counters as differences.
func (w *world) appendStatus(b []byte, s *api.RolloutStatus) []byte {
	m, c := s.Sluice, s.Common()
	if m == nil {
		return append(b, '-')
	}
	p := planner{m: m, c: c}
	b = append(append(b, decisionOf(s)...), '/')
	b = append(append(b, m.State...), '/')
	b = append(append(b, m.FinaliseReason...), '/')
	b = append(append(b, p.interruptedStep()...), '/')
	b = append(append(b, c.CurrentStepState...), '/')
	b = append(append(b, m.StableRevision...), '/')
	b = append(append(b, m.CanaryRevision...), '/')
	b = append(append(b, m.WorkloadUID...), '/')
	b = append(append(b, strings.Join(m.RecentRevisions, ",")...), '/')
	b = appendBools(b, p.abandonedAfterAbort(), m.RouteDigest != "", m.GraceUntil != nil && w.time().Before(m.GraceUntil.Time), m.WakeAt != nil && w.time().Before(m.WakeAt.Time),
		m.Epoch == w.canary.epoch, m.Epoch > 0, m.PlanHash == w.model.spec.Hash, m.StepSince != nil, m.StepSince != nil && w.time().Before(m.StepSince.Add(w.model.spec.ProgressDeadline)))
	b = appendBools(b, p.currentState().InStep() && w.time().Before(p.jumpShowsUntil()))
	b = append(b, byte(m.Steps), byte(m.RollbackReplicas), byte(m.Step), byte(c.NextStepIndex), byte(c.CurrentStepIndex))
	if s.Command != nil {
		b = append(append(b, s.Command.Action...), byte(m.Epoch-s.Command.Epoch), byte(m.PauseSeq-s.Command.PauseSeq))
	}
	if w.model.fleet {
		b = w.appendFleet(b, s)
	}
	if s.Analysis == nil {
		return b
	}
	for _, run := range []*api.AnalysisRun{s.Analysis.Step, s.Analysis.Release} {
		b = append(b, '|')
		if run != nil && run.Epoch == m.Epoch {
			b = append(b, run.Phase...)
			b = appendBools(b, run.PauseSeq == m.PauseSeq, run.EndedAt != nil, run.RenewBy != nil && w.time().Before(run.RenewBy.Time))
		}
	}
	return b
}

func appendBools(b []byte, bits ...bool) []byte {
	for _, bit := range bits {
		if bit {
			b = append(b, '1')
		} else {
			b = append(b, '0')
		}
	}
	return b
}

// path describes the moves that led to a state.
func (e *explorer) path(id int32) string {
	var names []string
	for ; id >= 0; id = e.parents[id] {
		names = append(names, e.names[id])
	}
	slices.Reverse(names)
	return e.name + "\n    " + strings.Join(names, "\n    ")
}

// checkLiveness follows the helpful moves from every state: they must end in an idle world.
func (e *explorer) checkLiveness(m *model) {
	done := make([]int32, len(e.helpful)) // the number of the walk that visited the state
	for begin := range e.helpful {
		walk, id := int32(begin+1), int32(begin)
		for id >= 0 && done[id] == 0 {
			done[id] = walk
			id = e.helpful[id]
		}
		if id >= 0 && done[id] == walk {
			m.check.fail("RestReached", "from here the machine goes round in a circle:\n    %s\n  the circle: %s", e.path(id), e.circle(id))
			return
		}
	}
}

func (e *explorer) circle(id int32) string {
	var names []string
	for next := e.helpful[id]; ; next = e.helpful[next] {
		names = append(names, fmt.Sprint(next, " ", e.names[next]))
		if next == id {
			return strings.Join(names, " > ")
		}
	}
}
