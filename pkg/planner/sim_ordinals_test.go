package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// place is the additional state of a workload that replaces its own pods, compared with one that has a canary: its own controller, which counts
// available pods, and pods that take time to get ready.
type place struct {
	raw       [4]int8 // pods of a version that are not ready yet
	existed   [4]bool // versions that have a ReplicaSet
	inflated  [4]bool // those whose pods never count as available
	parked    bool
	backwards bool
	synced    bool // the controller has seen the spec
	strategy  rollout.Budget
	keep      int8    // how many pods a partition leaves
	current   int8    // the version in which the controller makes pods below the partition
	empty     bool    // the workload is scaled to 0
	made      [4]int8 // the places of ReplicaSets in the order in which they were made
	unscaled  bool    // its autoscaler is taken off it
	widened   bool    // its replicas are ours
	room      int8    // how many they are on top of its owner's

	at [mostPods]int8 // where pods are numbered, the version of each, 0 for none
	// ghost: how many pods a rollback in batches found when it began its first step
	found int8
	// ghost: how many there were at most since
	came int8
	// ghost: pods that have failed in this epoch and that an earlier budget does not count
	failed int8
	// ghosts: new pods that stood when a partition was written last, and old ones that were lost since
	stood, lost int8
	// ghost: the template was changed after the workload was scaled up from 0, and before it came back
	hasty bool
}

func (m *model) inPlace() bool { return m.spec.Style != rollout.StyleCanary }

func newPlace(m *model) place {
	return place{existed: [4]bool{1: true}, made: [4]int8{1: 1}, synced: true, strategy: m.owners(), current: 1, at: m.numbered(1)}
}

// owners is the owner's own budget.
func (m *model) owners() rollout.Budget {
	return rollout.Budget{Unavailable: percentFor(m.maxUnavailable(), int32(m.size())), Surge: m.surge}
}

func (m *model) maxUnavailable() int32 {
	switch {
	case m.whole:
		return int32(m.size())
	case m.loose:
		return 1
	}
	return 1 - m.surge
}

func (w *world) seePlace(seen *rollout.Workload) {
	seen.Observed, seen.MaxUnavailable, seen.MaxSurge = w.synced, w.model.maxUnavailable(), w.model.surge
	seen.TakenOver, seen.ReplicaSetsFrozen, seen.Budget = w.parked, w.backwards, w.strategy
	seen.Revisions, seen.Total, seen.Available = nil, int32(w.running()), 0
	if seen.UpdateMechanism = w.model.lever; seen.UpdateMechanism != rollout.MechanismRollingUpdate {
		seen.Partition = rollout.Amount{Value: int32(w.partition())}
		if seen.HasOrdinals = w.model.orders; w.current != w.template && w.model.lever != rollout.MechanismOnDelete {
			seen.RevertsTo = hash(w.current)
		}
	}
	if w.model.rooms() {
		w.seeRoom(seen)
	}
	for v := int8(1); v <= 3; v++ {
		if !w.existed[v] {
			continue
		}
		set := rollout.Revision{Hash: hash(v), Revision: version(v), Replicas: int32(w.pods[v]), Ready: int32(w.pods[v] - w.raw[v]), UnavailableRequested: w.inflated[v], Unavailable: w.inflated[v], CreationOrder: int32(w.made[v])}
		if w.model.orders {
			set.Ordinals = w.places(v)
		}
		seen.Revisions = append(seen.Revisions, set)
		seen.Available += int32(w.available(v))
	}
}

func (w *world) running() int8 { return w.pods[1] + w.pods[2] + w.pods[3] }

func (w *world) available(v int8) int8 {
	if w.inflated[v] {
		return 0
	}
	return w.pods[v] - w.raw[v]
}

func (w *world) allReady() int8 { return w.running() - w.raw[1] - w.raw[2] - w.raw[3] }

// controller lists what the workload's own controller and its pods do.
func (w *world) controller() []move {
	var moves []move
	add := func(when bool, name string, do func(*world)) {
		if when {
			moves = append(moves, move{name: name, do: func(w *world) { do(w); w.touched(onWorkload) }})
		}
	}
	for v := int8(1); v <= 3; v++ {
		add(w.raw[v] > 0 && (v != w.model.broken || w.raw[v] == w.pods[v]), fmt.Sprintf("a pod of v%d becomes ready", v), func(w *world) { w.raw[v]-- })
	}
	if w.uid == 0 {
		return moves
	}
	if !w.synced {
		add(true, "the controller sees the workload", func(w *world) {
			w.synced = true
			if !w.stopped {
				w.makeSet(w.template)
			}
			if w.existed[w.template] {
				w.inflated[w.template] = w.parked && w.model.lever == rollout.MechanismRollingUpdate
			}
		})
		return moves
	}
	if w.model.rooms() {
		return append(moves, w.roomy()...)
	}
	if w.model.lever != rollout.MechanismRollingUpdate {
		return append(moves, w.pulled()...)
	}
	budget := w.strategy
	if !w.parked {
		budget = w.model.owners()
	}
	surge := surgeOfBudget(budget, int32(w.model.size()))
	if w.stopped {
		return append(moves, w.proportional(surge)...)
	}
	t, size := w.template, w.size()
	least := size - int8(percentOf(budget.Unavailable, int32(size)))
	add(w.pods[t] < size && w.running() < size+surge, "the workload makes a new pod", func(w *world) { w.makePod(t) })
	add(size == 0 && w.pods[t] > 0, "the workload takes a new pod", func(w *world) { w.takePod(t) })
	spare := w.running() - least - (w.pods[t] - w.available(t))
	available := w.available(1) + w.available(2) + w.available(3)
	for v := int8(1); v <= 3; v++ {
		if v == t || spare <= 0 {
			continue
		}
		unhealthy := w.pods[v] - w.available(v)
		add(unhealthy > 0, fmt.Sprintf("the workload takes a pod of v%d that is not available", v), func(w *world) { w.takePod(v) })
		add(unhealthy == 0 && w.pods[v] > 0 && available > least, fmt.Sprintf("the workload takes a pod of v%d", v), func(w *world) { w.takePod(v) })
	}
	return moves
}

// proportional is what the controller of a paused workload does: it keeps their number, and knows no versions.
func (w *world) proportional(surge int8) []move {
	var moves []move
	if done := w.saturated(); done != nil {
		return done
	}
	active := 0
	for v := 1; v <= 3; v++ {
		if w.pods[v] > 0 {
			active++
		}
	}
	most := w.size() + surge
	switch {
	case active == 0:
		return w.fromZero()
	case active == 1 || w.empty:
		most = w.size()
	}
	if active > 1 && w.backwards {
		return nil
	}
	for v := int8(1); v <= 3; v++ {
		if w.pods[v] == 0 {
			continue
		}
		if w.running() < most {
			moves = append(moves, move{fmt.Sprintf("the paused workload makes a pod of v%d", v), func(w *world) { w.spread(); w.makePod(v); w.touched(onWorkload) }})
		}
		if w.running() > most {
			moves = append(moves, move{fmt.Sprintf("the paused workload takes a pod of v%d", v), func(w *world) { w.takePod(v); w.touched(onWorkload) }})
		}
	}
	return moves
}

// spread is a surge that one version has left and that the controller of the paused workload gives to another one, after users have changed
// the template again and again. It is the documented limit of a native controller, and no less than force.
func (w *world) spread() {
	if w.model.acts > mostActs {
		w.forced = max(w.forced, 1)
	}
}

// makePod is a new pod of a version.
func (w *world) makePod(v int8) {
	m := machine(&w.status)
	if w.model.beside() && w.pods[v] == 0 && !w.routedToCanary() {
		w.left = w.now - graceOfModels // no traffic has ever been on these pods
	}
	w.pods[v]++
	w.raw[v]++
	w.hasty = false
	w.makeSet(v)
	w.came = max(w.came, w.running()-w.pods[w.template])
	if v == w.template && w.parked && w.model.lever == rollout.MechanismRollingUpdate {
		w.inflated[v] = true
	}
	c := w.model.check
	goes := w.parked && w.forced == 0 && w.model.lever != rollout.MechanismOnDelete // its deleted pods come back in the new version
	if goes && !w.trusted[v] && version(v) == m.CanaryRevision && rollout.State(m.State).InStep() {
		agreed := min(int32(w.allowed), int32(len(w.model.spec.Steps)))
		most := max(w.model.replicas(w.model.spec, agreed), w.model.replicas(w.model.plan(w.model.other != nil), agreed)) // pods stay when a step is lowered
		if w.failed > 0 {
			most = max(most, int32(w.stood)) // one that is lost comes back as what it was
		}
		c.that(int32(w.pods[v]) <= most, "ExposureNeverAboveCommittedStep", "%d new pods run, and step %d is agreed to", w.pods[v], agreed)
	}
	c.that(!w.ours() || int32(w.running()) <= int32(w.model.size())+w.model.mostBeside(), "OwnersBudgetKept", "%d pods run", w.running())
	if m.State == string(rollout.StateDisabled) || m.FinaliseReason == api.FinaliseDisabled {
		w.trusted[w.template] = true
	}
}

// ours reports whether the workload uses a budget that was made for its present template. A workload that a user changes and resumes uses a budget
// for another version.
func (w *world) ours() bool {
	m := machine(&w.status)
	return w.parked && w.forced == 0 && rollout.State(m.State).InStep() && version(w.template) == m.CanaryRevision
}

// takePod takes a pod of a version away, first one that is not ready.
func (w *world) takePod(v int8) {
	w.model.check.taken(w, v)
	w.model.check.returned(w, v)
	w.pods[v]--
	if w.raw[v] > 0 {
		w.raw[v]--
		return
	}
	ready := int32(w.allReady())
	// To the controller pods of a version between the stable and the new one are missing, whether or not they are ready.
	between := v != w.template && w.inflated[v]
	w.model.check.that(!w.ours() || between || ready+int32(w.failed) >= int32(w.size())-w.model.maxUnavailable(), "OwnersBudgetKept", "%d pods are ready", ready)
}

// scale is a ReplicaSet that is scaled by us.
func (w *world) scale(a rollout.ScaleRevision) {
	v := versionOf(a.Hash)
	pinned := w.pinned(versionOf(machine(&w.status).StableRevision))
	if w.pods[v] == 0 && a.Replicas == 1 {
		w.pods[v], w.raw[v] = 1, 1 // beyond the budget, if need be
	}
	for int32(w.pods[v]) < a.Replicas {
		w.makePod(v)
	}
	for int32(w.pods[v]) > a.Replicas {
		if pinned {
			w.model.check.taken(w, v)
			w.pods[v]--
			w.raw[v] = min(w.raw[v], w.pods[v])
			continue
		}
		w.takePod(v)
	}
}

// let is what the actions on a workload that replaces its own pods do to it.
func (w *world) let(a rollout.Action) {
	if a, ok := a.(rollout.DeleteRevision); ok {
		w.existed[versionOf(a.Hash)], w.made[versionOf(a.Hash)] = false, 0
		return
	}
	w.written()
	if w.model.spec.ConstantCapacity {
		w.resize(a)
		return
	}
	if w.model.rooms() && w.letRoom(a) {
		return
	}
	switch a := a.(type) {
	case rollout.TakeOverWorkload:
		w.adopted, w.held, w.stopped = true, true, true
		w.parked, w.strategy, w.backwards = true, a.Budget, a.Budget == rollout.Budget{}
	case rollout.ResumeRollingUpdate:
		w.parked, w.stopped, w.backwards, w.strategy = true, false, false, a.Budget
	case rollout.PauseWorkload:
		w.stopped, w.backwards, w.strategy = true, false, a.Budget
	case rollout.FreezeWorkload:
		w.stopped, w.backwards = true, true
	case rollout.PartitionWorkload:
		w.stopped, w.keep = false, int8(a.Partition.Value)
		w.stood, w.lost = w.pods[w.template], 0
	case rollout.ReplacePods:
		for range a.Pods {
			w.deletePod(versionOf(a.Hash))
		}
	case rollout.HoldRevisionUnavailable:
		w.inflated[versionOf(a.Hash)] = true
	case rollout.ScaleRevision:
		w.scale(a)
	}
}

// free ends what a release has made of the workload.
func (w *world) free() {
	w.parked, w.backwards, w.strategy, w.keep = false, false, w.model.owners(), 0
	w.widened, w.room = false, 0
	w.written()
}

// written has the controller of the workload look at it.
func (w *world) written() { w.synced = !w.model.inPlace() }

// advanced judges a budget before it is written.
func (c *checks) advanced(w *world, m api.SluiceStatus, a rollout.ResumeRollingUpdate) {
	c.that(version(w.template) == m.CanaryRevision, "OnlyAgreedVersionLetGo", "%s with %s in a release of %s", a, version(w.template), m.CanaryRevision)
	pods := podsOfBudget(a.Budget, int32(w.model.size()))
	if rollout.State(m.State) == rollout.StateFinalising {
		return // the version has been agreed to as a whole
	}
	if pods <= int32(w.pods[w.template]) {
		pods = 0
	}
	c.that(w.pods[w.template] > 0 || !w.routedToCanary(), "NoTrafficBeforeReady", "%s while the first pod of v%d is yet to come and traffic is sent to it", a, w.template)
	c.raise(w, a, m.Step, pods)
}

// ready is how many new pods were seen ready, and how many of the endpoints that the step needs.
func (m *model) ready(seen rollout.Seen, canary string) int32 {
	if !m.inPlace() {
		if seen.Canary == nil {
			return 0
		}
		return seen.Canary.Available
	}
	revision := seen.Workload.Revision
	if m.beside() {
		revision = canary
	}
	for _, set := range seen.Workload.Revisions {
		if set.Revision == revision {
			return set.Ready
		}
	}
	return 0
}
