package release

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Steps returns the steps of the Rollout, of any strategy.
func Steps(r *api.Rollout) []api.Step {
	switch s := r.Spec.Strategy; {
	case s.Canary != nil:
		return s.Canary.Steps
	case s.BlueGreen != nil:
		return s.BlueGreen.Steps
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

// heldCondition is what stops the release until a user mends it, nil for nothing. Missing policies are shown and stop nothing.
func heldCondition(r *api.Rollout) *api.Condition {
	c := FindCondition(r, api.ConditionStalled)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == rollout.ReasonAdmissionPolicyMissing {
		return nil
	}
	return c
}

// waitsForApproval reports whether the release is paused at a step that waits for approval. It does not when metrics have passed that stand for one: the
// executor is about to take them for it. A step that the Rollout does not have waits.
func waitsForApproval(r *api.Rollout, current *api.CommonStatus) bool {
	if !rollout.State(current.CurrentStepState).TakesApproval() {
		return false
	}
	n, steps := current.CurrentStepIndex, Steps(r)
	if n < 1 || int(n) > len(steps) {
		return true
	}
	spec, err := rollout.Parse(r)
	if err != nil {
		return steps[n-1].Pause.Duration == nil
	}
	return spec.WaitsForApproval(n) && !(metricsPassed(r) && spec.StepAnalysis(n).StandsForApproval())
}

// metricsPassed reports whether the metrics of the current step have passed.
func metricsPassed(r *api.Rollout) bool {
	all := r.Status.Analysis
	return all != nil && all.Step != nil && all.Step.Phase == api.AnalysisPassed
}
