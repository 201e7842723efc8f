package planner

import "sluice.dev/sluice/pkg/rollout"

// intentCommitted reports whether the committed status already intends an action that raises exposure. It does if it is in the same step of the same
// release, for the same reason. Then the executor may act before the next commit. The first route of a release is an exception: the final grace
// period depends on it, so the executor commits the status before this route even within its step.
func (p *planner) intentCommitted(a rollout.Action) bool {
	before := p.seen.Status.Sluice
	if before == nil {
		return false
	}
	switch a.(type) {
	case rollout.RemoveFinalizer, rollout.DisownWorkload:
		return false // the executor may never commit the status after them
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
