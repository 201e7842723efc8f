package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// partition returns the number of pods that the workload's controller leaves as they are.
func (w *world) partition() int8 {
	if w.stopped {
		return w.model.size()
	}
	return w.keep
}

// pulled lists the moves of the controller of a workload other than a Deployment. An ordered controller waits for each pod to be ready.
func (w *world) pulled() []move {
	var moves []move
	add := func(when bool, name string, do func(*world)) {
		if when {
			moves = append(moves, move{name: name, do: func(w *world) { do(w); w.touched(onWorkload) }})
		}
	}
	if w.model.orders {
		return w.ordered()
	}
	t, rolls := w.template, w.pods[w.template] < w.model.size()-w.partition()
	switch comes := w.comes(); {
	case w.running() < w.model.size():
		add(true, fmt.Sprintf("the workload makes a pod of v%d", comes), func(w *world) { w.makePod(comes) })
	case w.allReady() < w.model.size() && !w.model.whole:
	case rolls:
		for v := int8(1); v <= 3; v++ {
			add(v != t && w.pods[v] > 0, fmt.Sprintf("the workload takes a pod of v%d", v), func(w *world) { w.takePod(v) })
		}
	case w.pods[t] == w.model.size():
		add(w.current != t, "the version is the current one", (*world).makeCurrent)
	}
	return moves
}

// comes returns the version in which the controller creates a missing pod.
func (w *world) comes() int8 {
	if w.model.rooms() {
		return w.comesBack()
	}
	if w.model.lever == rollout.MechanismOnDelete || w.pods[w.template] < w.model.size()-w.partition() {
		return w.template
	}
	return w.current
}

// makeCurrent lets the controller create all further pods from the template. While no Rollout holds the workload, its owner wants that.
func (w *world) makeCurrent() {
	w.current = w.template
	w.trusted[w.template] = w.trusted[w.template] || !w.adopted
}

// partitioned checks a partition before its write.
func (c *checks) partitioned(w *world, m api.SluiceStatus, a rollout.PartitionWorkload) {
	if m.FinaliseReason == api.FinaliseRollback && rollout.State(m.State) == rollout.StateFinalising {
		c.that(hash(w.template) == m.StableRevision, "OnlyAgreedVersionLetGo", "%s with %s in a rollback", a, version(w.template))
		return
	}
	c.that(version(w.template) == m.CanaryRevision, "OnlyAgreedVersionLetGo", "%s with %s in a release of %s", a, version(w.template), m.CanaryRevision)
	if m.RollbackReplicas > 0 {
		c.raise(w, a, m.Step, 0) // the number of pods that go is checked when they go
		return
	}
	c.raise(w, a, m.Step, c.more(w, int32(w.model.size())-a.Partition.Value))
}

// replaced checks a deletion of pods before it happens.
func (c *checks) replaced(w *world, m api.SluiceStatus, a rollout.ReplacePods) {
	v := versionOf(a.Hash)
	c.that(a.Pods > 0 && a.Pods <= int32(w.pods[v]), "OwnersBudgetKept", "%s, which has %d", a, w.pods[v])
	if rollout.State(m.State).InStep() && w.comes() == w.template && m.RollbackReplicas == 0 {
		c.raise(w, a, m.Step, c.more(w, int32(w.pods[w.template])+a.Pods))
	}
}

// more returns the future number of new pods, or 0 if there are as many already.
func (c *checks) more(w *world, pods int32) int32 {
	if pods <= int32(w.pods[w.template]) {
		return 0
	}
	return pods
}

// lowers reports whether an action that may create new pods does not. Deleted pods may come back stable, or the action may allow no more new pods
// than exist.
func (w *world) lowers(a rollout.Action) bool {
	switch a := a.(type) {
	case rollout.PartitionWorkload:
		return a.Partition.Value > int32(w.partition()) || int32(w.model.size())-a.Partition.Value <= int32(w.pods[w.template])
	case rollout.ReplacePods:
		return w.comes() != w.template
	}
	return false
}
