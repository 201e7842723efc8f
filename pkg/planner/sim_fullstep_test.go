package planner

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file simulates steps that replace all pods in place although they ask for less.

// withoutAllowFull returns the steps before the owner accepts any of them.
func withoutAllowFull(steps []rollout.Step) []rollout.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].AllowFull = false
	}
	return steps
}

// agree lets the owner accept such steps.
func (w *world) agree() {
	w.agrees = true
	w.touched(onRollout)
}

// heldFor reports whether the status shows a hold with a reason.
func (w *world) heldFor(reason api.Reason) bool {
	return slices.ContainsFunc(w.status.Conditions, func(c api.Condition) bool { return c.Type == api.ConditionStalled && c.Reason == reason })
}

// lastKept judges an action in a step that asks for less than all and that the owner has not accepted. The executor must not replace the last stable
// pod, and must not open the stable Service to other pods while a stable pod is there.
func (c *checks) lastKept(w *world, seen rollout.Seen, d rollout.Decision, a rollout.Action) {
	m := machine(&d.Status)
	if !w.model.refuses || !rollout.State(m.State).InStep() || seen.Workload == nil || w.forced > 0 {
		return
	}
	step := seen.Spec.Steps[m.Step-1]
	less := step.Weight != nil && *step.Weight < 100
	if !less || step.AllowFull || w.model.replicas(seen.Spec, m.Step) < int32(w.model.size()) {
		return
	}
	stable := slices.ContainsFunc(seen.Workload.Revisions, func(set rollout.Revision) bool { return set.Hash == m.StableRevision && set.Replicas > 0 })
	switch a.(type) {
	case rollout.ResumeRollingUpdate, rollout.PartitionWorkload, rollout.ReplacePods:
		c.that(w.lowers(a), "LastStablePodKept", "%s in step %d", a, m.Step)
	case rollout.UnpinService:
		c.that(!stable, "LastStablePodKept", "%s in step %d", a, m.Step)
	}
}
