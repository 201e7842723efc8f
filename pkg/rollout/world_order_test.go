package rollout

import (
	"fmt"
	"slices"
)

// places are the places of the pods of a version.
func (w *world) places(v int8) []int32 {
	var all []int32
	for place, is := range w.at {
		if is == v {
			all = append(all, int32(place))
		}
	}
	return all
}

// ordered lists what the controller of a workload with numbered pods does: it makes the first one that is missing, and once all are ready
// takes the last one that is above the partition and not of the template.
func (w *world) ordered() []move {
	t := w.template
	if place := slices.Index(w.at[:], 0); place >= 0 {
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
	if w.allReady() < workloadSize {
		return nil
	}
	for place := workloadSize - 1; place >= int(w.partition()); place-- {
		if v := w.at[place]; v != t {
			return []move{{fmt.Sprintf("the workload takes pod %d of v%d", place, v), func(w *world) {
				w.at[place] = 0
				w.takePod(v)
				w.touched(onWorkload)
			}}}
		}
	}
	if w.pods[t] == workloadSize && w.current != t {
		return []move{{"the version is the current one", func(w *world) { w.current = t; w.touched(onWorkload) }}}
	}
	return nil
}

// early reports whether pods of a version run below the partition: they came before it was held, and are not in the way of its steps.
func (w *world) early(v int8) bool {
	return w.model.orders && slices.Contains(w.at[:w.partition()], v)
}

// deletePod is a pod of a version that is deleted by us: the first one, where they are numbered.
func (w *world) deletePod(v int8) {
	if w.model.orders {
		w.at[slices.Index(w.at[:], v)] = 0
	}
	w.takePod(v)
}

// returned judges a pod that goes in a rollback in batches: no more may than the step that is agreed to says.
func (c *checks) returned(w *world, v int8) {
	m := machine(&w.status)
	state := State(m.State)
	if m.RollbackReplicas == 0 || hash(w.template) != m.StableRevision || v == w.template || w.forced > 0 || w.model.acts > mostActs && !w.held {
		return
	}
	left := w.running() - w.pods[w.template] - 1
	switch {
	case state == StateInitializing:
		c.fail("RollbackInBatchKeepsToTheStep", "a pod of v%d goes before the first step", v)
	case state.InStep():
		agreed := min(int32(w.allowed), int32(len(w.model.spec.Steps)))
		p := planner{seen: Seen{Spec: w.model.spec, Workload: &Workload{}}, m: &m}
		m.Step = agreed
		stays := int32(w.found) - p.share(int32(w.found))
		c.that(int32(left) >= stays, "RollbackInBatchKeepsToTheStep", "a pod of v%d goes, of %d only %d are left, and step %d is agreed to", v, w.found, left, agreed)
	}
}
