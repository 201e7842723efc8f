package planner

import "sluice.dev/sluice/pkg/rollout"

// intentCommitted reports whether the status as committed already intends an action that raises: it is in the same step of the same
// release, for the same reason. Then the action may come before the next commit. Routes are special: the grace period at the end
// depends on their having been written, so that the first one of a release is committed even within its step.
func (p *planner) intentCommitted(a rollout.Action) bool {
	before := p.seen.Status.Sluice
	if before == nil {
		return false
	}
	switch a.(type) {
	case rollout.RemoveFinalizer, rollout.DisownWorkload:
		return false // the status after them may never be committed
	case rollout.PrepareRoute, rollout.ApplyRoute, rollout.ClaimTrafficRouting:
		if before.RouteDigest == "" {
			return false
		}
	}
	from := rollout.State(before.State)
	return (from == p.currentState() || from.InStep() && p.currentState().InStep()) &&
		before.Epoch == p.m.Epoch && before.Step == p.m.Step && before.WorkloadUID == p.m.WorkloadUID && before.FinaliseReason == p.m.FinaliseReason &&
		before.PlanHash == p.m.PlanHash && before.CanaryRevision == p.m.CanaryRevision && before.StableRevision == p.m.StableRevision &&
		before.RollbackReplicas == p.m.RollbackReplicas
}
