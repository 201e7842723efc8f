package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// numbered returns the ordinals of a workload that runs only one version.
func (m *model) numbered(v int8) (at [mostPods]int8) {
	for place := range m.size() {
		at[place] = v
	}
	return at
}

// places returns the ordinals of the pods of a version.
func (w *world) places(v int8) []int32 {
	var all []int32
	for place, is := range w.at {
		if is == v {
			all = append(all, int32(place))
		}
	}
	return all
}

// ordered lists the moves of the controller of a workload with ordinals. It creates the first missing pod. Once all pods are ready, it deletes the
// last pod above the partition that is not of the template.
func (w *world) ordered() []move {
	t := w.template
	if place := slices.Index(w.at[:w.model.size()], 0); place >= 0 {
		comes := w.current
		if place >= int(w.partition()) {
			comes = t
		}
		return []move{{fmt.Sprintf("the workload makes pod %d of v%d", place, comes), func(w *world) {
			w.at[place] = comes
			w.makePod(comes)
			w.touched(onWorkload)
		}}}
	}
	if w.allReady() < w.model.size() {
		return nil
	}
	for place := int(w.model.size()) - 1; place >= int(w.partition()); place-- {
		if v := w.at[place]; v != t {
			return []move{{fmt.Sprintf("the workload takes pod %d of v%d", place, v), func(w *world) {
				w.at[place] = 0
				w.takePod(v)
				w.touched(onWorkload)
			}}}
		}
	}
	if w.pods[t] == w.model.size() && w.current != t {
		return []move{{"the version is the current one", func(w *world) { w.makeCurrent(); w.touched(onWorkload) }}}
	}
	return nil
}

// deletePod deletes a pod of a version for the executor: the first one, if the pods have ordinals.
func (w *world) deletePod(v int8) {
	if w.model.orders {
		w.at[slices.Index(w.at[:], v)] = 0
	}
	w.takePod(v)
}

// leaves returns how many of so many pods of the rejected version a step leaves.
func (w *world) leaves(step int32, of int8) int32 {
	m := api.SluiceStatus{Step: min(step, int32(len(w.model.spec.Steps)))}
	p := planner{seen: rollout.Seen{Spec: w.model.spec, Workload: &rollout.Workload{}}, m: &m}
	return int32(of) - p.podsOfStep(int32(of))
}

// reached checks a step of a rollback in batches that waits for its approval: the step's pods are gone, and their replacements are ready.
func (c *checks) reached(w *world, next *api.RolloutStatus) {
	m := machine(next)
	back := m.RollbackReplicas > 0 && hash(w.template) == m.StableRevision
	if w.state() == rollout.StatePaused || rollout.State(m.State) != rollout.StatePaused || !back || w.forced > 0 {
		return
	}
	left := int32(w.running() - w.pods[w.template])
	c.that(left <= w.leaves(m.Step, w.came), "RollbackInBatchKeepsToTheStep", "step %d is reached, and of %d pods %d are left", m.Step, w.found, left)
	ready := int32(w.pods[w.template] - w.raw[w.template])
	c.that(ready >= int32(w.size())-w.leaves(m.Step, w.came), "RollbackInBatchKeepsToTheStep", "step %d is reached, and %d pods of the stable version are ready", m.Step, ready)
}

// returned checks a pod that goes in a rollback in batches: no more pods may go than the approved step says.
func (c *checks) returned(w *world, v int8) {
	m := machine(&w.status)
	state := rollout.State(m.State)
	if m.RollbackReplicas == 0 || hash(w.template) != m.StableRevision || v == w.template || w.forced > 0 || w.model.acts > mostActs && !w.held {
		return
	}
	left := w.running() - w.pods[w.template] - 1
	switch {
	case state == rollout.StateInitializing:
		c.fail("RollbackInBatchKeepsToTheStep", "a pod of v%d goes before the first step", v)
	case state.InStep():
		agreed := int32(w.allowed)
		// The controller does not know of an old pod that was lost after the write of the partition and came back stable, so it deletes another pod.
		c.that(int32(left+w.lost) >= w.leaves(agreed, w.found), "RollbackInBatchKeepsToTheStep", "a pod of v%d goes, of %d only %d are left, and step %d is agreed to", v, w.found, left, agreed)
	}
}
