package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func (m *model) beside() bool { return m.spec.Style == rollout.StyleBlueGreen }

// mostBeside returns the maximum number of pods above the workload's own.
func (m *model) mostBeside() int32 {
	if m.beside() {
		return int32(m.size())
	}
	return m.surge
}

// seeScaler adds one autoscaler to the workload of a blue-green model.
func (w *world) seeScaler(s *rollout.Seen) {
	if w.model.beside() || w.model.spec.ConstantCapacity && w.model.routes > 0 {
		s.Autoscalers = []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HorizontalPodAutoscaler", Name: "demo"}, Disabled: w.unscaled}}
	}
}

// saturated is the controller of a paused workload once all pods of the template are available: it deletes the others at once.
func (w *world) saturated() (moves []move) {
	if all := w.model.size(); w.pods[w.template] != all || w.available(w.template) != all {
		return nil
	}
	for v := int8(1); v <= 3; v++ {
		if v != w.template && w.pods[v] > 0 {
			moves = append(moves, move{fmt.Sprintf("the paused workload takes v%d for the end of a rollout", v), func(w *world) { w.takePod(v); w.touched(onWorkload) }})
		}
	}
	return moves
}

// taken checks the end of a pod that the workload itself created: new pods go when no traffic can reach them, and in a blue-green release stable pods
// stay.
func (c *checks) taken(w *world, v int8) {
	m := machine(&w.status)
	state := rollout.State(m.State)
	if w.trusted[versionOf(m.CanaryRevision)] {
		return
	}
	back := state == rollout.StateFinalising && m.FinaliseReason == api.FinaliseRollback && hash(w.template) == m.StableRevision
	if w.model.beside() && hash(v) == m.StableRevision && w.widened == w.model.rooms() && (w.ours() || state == rollout.StateAborted && w.parked && w.held || back) {
		c.that(w.pods[v] > w.size(), "StablePodsKeptUntilPromoted", "one of %d pods of v%d goes in %s", w.pods[v], v, state)
	}
	turned := v != w.template || state == rollout.StateAborted
	blind := !w.model.beside() && w.stopped && !w.backwards // the controller of a paused workload does not distinguish versions
	if w.forced == 0 && !w.empty && !blind && (w.stopped || state == rollout.StateFinalising) && version(v) == m.CanaryRevision && hash(v) != m.StableRevision && turned {
		c.that(!w.routedToCanary(), "CanaryPodsNeverRemovedWhileRouted", "a pod of v%d goes", v)
		c.that(w.now-w.left >= graceOfModels, "GraceSpentBeforeRemoval", "a pod of v%d goes %d s after its traffic left", v, w.now-w.left)
	}
}

// refusedByRelease reports whether a release waits for its user to roll back another version.
func (w *world) refusedByRelease() bool {
	m := machine(&w.status)
	return w.model.beside() && w.uid != 0 && w.state().InStep() && version(w.template) != m.CanaryRevision && hash(w.template) != m.StableRevision
}
