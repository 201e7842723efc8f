package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// place is the additional state of a workload that replaces its own pods: its own controller, which counts available pods, and pods that become ready
// later.
type place struct {
	raw       [4]int8 // pods of a version that are not ready yet
	existed   [4]bool // versions that have a ReplicaSet
	inflated  [4]bool // versions whose pods never count as available
	parked    bool
	backwards bool
	synced    bool // the controller has seen the spec
	strategy  rollout.Budget
	keep      int8    // the number of pods that a partition leaves
	current   int8    // the version in which the controller makes pods below the partition
	empty     bool    // the workload is scaled to 0
	made      [4]int8 // the positions of ReplicaSets in their order of creation
	unscaled  bool    // its autoscaler is disabled
	widened   bool    // the executor wrote its replicas
	room      int8    // the replicas above its owner's number

	at [mostPods]int8 // with ordinals, the version of each pod, 0 for no pod
	// ghost: the number of pods that a rollback in batches found at the beginning of its first step
	found int8
	// ghost: their maximum number since then
	came int8
	// ghost: pods that have failed in this epoch; an earlier budget does not include them
	failed int8
	// ghosts: new pods at the last write of a partition, and old pods lost since then
	stood, lost int8
	// ghost: the template was changed after the workload was scaled up from 0, and before its pods came back
	hasty bool
}

func (m *model) inPlace() bool { return m.spec.Style != rollout.StyleCanary }

func newPlace(m *model) place {
	return place{existed: [4]bool{1: true}, made: [4]int8{1: 1}, synced: true, strategy: m.owners(), current: 1, at: m.numbered(1)}
}

// owners returns the owner's budget.
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

// controller lists the moves of the workload's own controller and its pods.
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

// proportional is the controller of a paused workload: it keeps the number of pods, and does not distinguish versions.
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

// spread is the move of a surge from one version to another by the controller of the paused workload, after repeated changes of the template. It is
// the documented limit of a native controller, and counts like force.
func (w *world) spread() {
	if w.model.acts > mostActs {
		w.forced = max(w.forced, 1)
	}
}

// makePod creates a pod of a version.
func (w *world) makePod(v int8) {
	m := machine(&w.status)
	if w.model.beside() && w.pods[v] == 0 && !w.routedToCanary() {
		w.left = w.now - graceOfModels // these pods have never had traffic
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
	goes := w.parked && w.forced == 0 && w.model.lever != rollout.MechanismOnDelete // with that mechanism, deleted pods come back new for every client
	if goes && !w.trusted[v] && version(v) == m.CanaryRevision && rollout.State(m.State).InStep() {
		most := max(w.mostAllowed(w.model.spec), w.mostAllowed(w.model.plan(w.model.other != nil))) // pods stay when the owner lowers a step
		if w.failed > 0 {
			most = max(most, int32(w.stood)) // a lost pod comes back in its version
		}
		c.that(int32(w.pods[v]) <= most, "ExposureNeverAboveCommittedStep", "%d new pods run, and step %d is agreed to", w.pods[v], w.allowed)
	}
	c.that(!w.ours() || int32(w.running()) <= int32(w.model.size())+w.model.mostBeside(), "OwnersBudgetKept", "%d pods run", w.running())
	if m.State == string(rollout.StateDisabled) || m.FinaliseReason == api.FinaliseDisabled {
		w.trusted[w.template] = true
	}
}

// ours reports whether the workload has a budget for the version of its template. If a user changes and resumes the workload, it has the budget of
// another version.
func (w *world) ours() bool {
	m := machine(&w.status)
	return w.parked && w.forced == 0 && rollout.State(m.State).InStep() && version(w.template) == m.CanaryRevision
}

// takePod deletes a pod of a version, an unready pod first.
func (w *world) takePod(v int8) {
	w.model.check.taken(w, v)
	w.model.check.returned(w, v)
	w.pods[v]--
	if w.raw[v] > 0 {
		w.raw[v]--
		return
	}
	ready := int32(w.allReady())
	// The controller counts all pods of a version between the stable and the new version as missing, ready or not.
	between := v != w.template && w.inflated[v]
	w.model.check.that(!w.ours() || between || ready+int32(w.failed) >= int32(w.size())-w.model.maxUnavailable(), "OwnersBudgetKept", "%d pods are ready", ready)
}

// scale scales a ReplicaSet for the executor.
func (w *world) scale(a rollout.ScaleRevision) {
	v := versionOf(a.Hash)
	pinned := w.pinned(versionOf(machine(&w.status).StableRevision))
	if w.pods[v] == 0 && a.Replicas == 1 {
		w.pods[v], w.raw[v] = 1, 1 // beyond the budget if necessary
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

// let carries out the actions on a workload that replaces its own pods.
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

// free removes the changes of a release from the workload.
func (w *world) free() {
	w.parked, w.backwards, w.strategy, w.keep = false, false, w.model.owners(), 0
	w.widened, w.room = false, 0
	w.written()
}

// written lets the controller observe the workload again.
func (w *world) written() { w.synced = !w.model.inPlace() }

// advanced checks a budget before its write.
func (c *checks) advanced(w *world, m api.SluiceStatus, a rollout.ResumeRollingUpdate) {
	c.that(version(w.template) == m.CanaryRevision, "OnlyAgreedVersionLetGo", "%s with %s in a release of %s", a, version(w.template), m.CanaryRevision)
	pods := podsOfBudget(a.Budget, int32(w.model.size()))
	if rollout.State(m.State) == rollout.StateFinalising {
		return // the version is approved as a whole
	}
	if pods <= int32(w.pods[w.template]) {
		pods = 0
	}
	c.that(w.pods[w.template] > 0 || !w.routedToCanary(), "NoTrafficBeforeReady", "%s while the first pod of v%d is yet to come and traffic is sent to it", a, w.template)
	c.raise(w, a, m.Step, pods)
}

// ready returns the numbers of new pods and of endpoints that were ready in the observed state, as far as the step needs them.
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
