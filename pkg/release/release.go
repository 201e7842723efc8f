package release

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Steps are the steps of the Rollout, whatever its strategy.
func Steps(r *api.Rollout) []api.Step {
	switch s := r.Spec.Strategy; {
	case s.Canary != nil:
		return s.Canary.Steps
	case s.BlueGreen != nil:
		return s.BlueGreen.Steps
	}
	return nil
}

// CommonStatus is what canary and blue-green releases show of themselves; nil before the first one.
func CommonStatus(r *api.Rollout) *api.CommonStatus {
	switch {
	case r.Status.CanaryStatus != nil:
		return &r.Status.CanaryStatus.CommonStatus
	case r.Status.BlueGreenStatus != nil:
		return &r.Status.BlueGreenStatus.CommonStatus
	}
	return nil
}

// StatusField is the field of the status that takes approvals and jumps.
func StatusField(r *api.Rollout) string {
	if r.Status.CanaryStatus == nil {
		return "blueGreenStatus"
	}
	return "canaryStatus"
}

// FindCondition is a condition of the Rollout, nil without one.
func FindCondition(r *api.Rollout, kind api.ConditionType) *api.Condition {
	i := slices.IndexFunc(r.Status.Conditions, func(c api.Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &r.Status.Conditions[i]
}

// InState reports whether the machine that carries out the release is in a state.
func InState(r *api.Rollout, state rollout.State) bool {
	return rollout.State(r.Status.Sluice.GetState()) == state
}

// IsAborted reports whether the release was stopped and what it changed is still held.
func IsAborted(r *api.Rollout) bool { return InState(r, rollout.StateAborted) }

// MetricsFailed reports whether the release waits because its metrics failed.
func MetricsFailed(r *api.Rollout) bool { return HeldFor(r, rollout.ReasonAnalysisFailed) }

// AsksForDecision reports whether the release waits because its metrics failed, or because they leave the decision to a person.
func AsksForDecision(r *api.Rollout) bool {
	return MetricsFailed(r) || HeldFor(r, rollout.ReasonAnalysisInconclusive)
}

// HeldFor reports whether the Rollout is held for a reason.
func HeldFor(r *api.Rollout, reason api.Reason) bool {
	held := FindCondition(r, api.ConditionStalled)
	return held != nil && held.Status == corev1.ConditionTrue && held.Reason == reason
}

// heldCondition is what stops the release until somebody mends it, nil for nothing. Missing policies are shown and stop nothing.
func heldCondition(r *api.Rollout) *api.Condition {
	c := FindCondition(r, api.ConditionStalled)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == rollout.ReasonAdmissionPolicyMissing {
		return nil
	}
	return c
}

// WaitsForApproval reports whether a step waits for approval. The last one does not when it has all replicas.
func WaitsForApproval(r *api.Rollout, index int32) bool {
	all := Steps(r)
	if index < 1 || int(index) > len(all) {
		return true
	}
	step := all[index-1]
	passes := int(index) == len(all) && step.Replicas != nil && step.Replicas.String() == "100%" && r.Spec.Strategy.BlueGreen == nil
	return step.Pause.Duration == nil && !passes && !promotedByMetrics(r, index, step)
}

// promotedByMetrics reports whether metrics have passed that stand for the approval of a step: the executor is about to take them for it.
func promotedByMetrics(r *api.Rollout, index int32, step api.Step) bool {
	if all := r.Status.Analysis; all == nil || all.Step == nil || all.Step.Phase != api.AnalysisPassed {
		return false
	}
	if own := step.Analysis; own != nil {
		return own.AutoPromote && !own.DryRun
	}
	whole := r.Spec.Strategy.Analysis
	return whole != nil && whole.AutoPromote && !whole.DryRun && (whole.StartingStep == nil || index >= *whole.StartingStep)
}
