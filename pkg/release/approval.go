package release

// This file says whether a Rollout can be approved, how, and with which result. An approval counts for the pause that the user saw: if the release
// has moved on meanwhile, it does not count for the next one.

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// PauseToApprove returns the pause that the Rollout is in. The error tells a user of the command why no pause can be approved. step restricts the
// search to one step, counted from 1; 0 allows any.
func PauseToApprove(r *api.Rollout, step int32, command string) (rollout.Pause, error) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	current := r.Status.Common()
	switch {
	case status.Phase == "":
		return rollout.Pause{}, fmt.Errorf("Rollout %s has not been looked at yet, so there is nothing to approve; find out why with: %s check", name, command)
	case status.Phase == api.PhaseHealthy || status.Phase == api.PhaseInitial:
		kind, workload := WorkloadOf(r)
		return rollout.Pause{}, fmt.Errorf("Rollout %s is %s: no release is under way, so there is nothing to approve; one starts when the pod template of %s %s changes",
			name, status.Phase, kind, workload)
	case status.Phase != api.PhaseProgressing || current == nil:
		return rollout.Pause{}, fmt.Errorf("Rollout %s is %s, so there is nothing to approve: %s", name, status.Phase, status.Message)
	case IsAborted(r):
		return rollout.Pause{}, fmt.Errorf("the release of Rollout %s was aborted, so there is nothing to approve: %s", name, status.Message)
	case step != 0 && step < current.CurrentStepIndex:
		return rollout.Pause{}, fmt.Errorf("Rollout %s has left step %d, it is at step %d of %d now (%s)",
			name, step, current.CurrentStepIndex, len(Steps(r)), current.CurrentStepState)
	case current.CurrentStepState == api.StepReady:
		return rollout.Pause{}, fmt.Errorf("step %d of Rollout %s has been approved already; follow it with: %s get rollout %s -n %s -w",
			current.CurrentStepIndex, name, command, r.Name, r.Namespace)
	case current.CurrentStepState == api.StepMetricsAnalysis:
		return rollout.Pause{}, fmt.Errorf("step %d of Rollout %s is being measured and cannot be approved yet: %s. See how with: %s analysis get %s -n %s; or go on without the result: %[4]s approve %[5]s -n %[6]s --force",
			current.CurrentStepIndex, name, status.Message, command, r.Name, r.Namespace)
	case !rollout.State(current.CurrentStepState).TakesApproval():
		return rollout.Pause{}, fmt.Errorf("step %d of Rollout %s cannot be approved before it is paused, it is in state %s: %s. Wait for it with: %s get rollout %s -n %s -w",
			current.CurrentStepIndex, name, current.CurrentStepState, status.Message, command, r.Name, r.Namespace)
	case step != 0 && step != current.CurrentStepIndex:
		return rollout.Pause{}, fmt.Errorf("Rollout %s is paused at step %d, not at step %d; approve that one with --step %[2]d", name, current.CurrentStepIndex, step)
	case MetricsFailed(r):
		return rollout.Pause{}, fmt.Errorf("the metrics of Rollout %s failed, so that step %d cannot be approved just so: %s", name, current.CurrentStepIndex, status.Message)
	}
	return pauseOf(r, current), nil
}

func pauseOf(r *api.Rollout, current *api.CommonStatus) rollout.Pause {
	p := rollout.Pause{UID: string(r.UID), Step: current.CurrentStepIndex}
	if s := r.Status.Sluice; s != nil {
		p.Epoch, p.PauseSeq = s.Epoch, s.PauseSeq
	}
	return p
}

// ApprovalPatch is the merge patch of the status that approves the present pause of the Rollout. It equals the patch of kubectl-kruise, and is bound
// to the version of the Rollout that was read.
func ApprovalPatch(r *api.Rollout) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": r.ResourceVersion},
		"status":   map[string]any{StatusField(r): map[string]any{"currentStepState": api.StepReady}},
	})
}

// ApprovalProgress says where a release stands after the pause was approved. done tells that there is nothing more to wait for; err is
// why the release will not get to its end by itself.
func ApprovalProgress(r *api.Rollout, since rollout.Pause, command string) (text string, done bool, err error) {
	status, current := r.Status, r.Status.Common()
	text = fmt.Sprintf("%s: %s", status.Phase, status.Message)
	if current == nil {
		return text, true, fmt.Errorf("Rollout %s/%s has no release under way any more: %s", r.Namespace, r.Name, text)
	}
	now := pauseOf(r, current)
	switch {
	case now.Epoch != since.Epoch:
		return text, true, fmt.Errorf("another release of Rollout %s/%s has begun: %s", r.Namespace, r.Name, status.Message)
	case status.Phase == api.PhaseHealthy:
		if c := FindCondition(r, api.ConditionSucceeded); c != nil && c.Status != corev1.ConditionTrue {
			return text, true, fmt.Errorf("the release of Rollout %s/%s did not succeed: %s", r.Namespace, r.Name, c.Message)
		}
		return fmt.Sprintf("the release of Rollout %s/%s is complete", r.Namespace, r.Name), true, nil
	case status.Phase != api.PhaseProgressing:
		return text, true, fmt.Errorf("the release of Rollout %s/%s has ended: %s", r.Namespace, r.Name, status.Message)
	}
	if IsAborted(r) {
		return text, true, fmt.Errorf("the release of Rollout %s/%s was aborted: %s", r.Namespace, r.Name, status.Message)
	}
	text = DescribeCurrentStep(r, current)
	if now.PauseSeq > since.PauseSeq && rollout.State(current.CurrentStepState).TakesApproval() && AsksForDecision(r) {
		return text, true, fmt.Errorf("Rollout %s/%s waits for a user to decide at step %d of %d: %s", r.Namespace, r.Name, current.CurrentStepIndex, len(Steps(r)), status.Message)
	}
	if now.PauseSeq > since.PauseSeq && waitsForApproval(r, current) {
		return DescribeApproval(r, current, command), true, nil
	}
	return text, false, nil
}
