// Package approval says whether a Rollout can be approved, how, and what came of it. It reads and writes nothing.
//
// Its one invariant: an approval is for the pause that was looked at; if the release has moved on meanwhile, it is not given to
// the next one.
package approval

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/cmd/internal/tree"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Pause is one pause of one release.
type Pause struct {
	Epoch, PauseSeq int64
	Step            int32
}

// Of is the pause that the Rollout is in. The error says, to a user of command, why there is none to approve. step restricts it
// to one step, counted from 1; 0 takes any.
func Of(r *api.Rollout, step int32, command string) (Pause, error) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	current := common(r)
	switch {
	case status.Phase == "":
		return Pause{}, fmt.Errorf("Rollout %s has not been looked at yet, so there is nothing to approve; find out why with: %s check", name, command)
	case status.Phase == api.PhaseHealthy || status.Phase == api.PhaseInitial:
		kind, workload := tree.Workload(r)
		return Pause{}, fmt.Errorf("Rollout %s is %s: no release is under way, so there is nothing to approve; one starts when the pod template of %s %s changes",
			name, status.Phase, kind, workload)
	case status.Phase != api.PhaseProgressing || current == nil:
		return Pause{}, fmt.Errorf("Rollout %s is %s, so there is nothing to approve: %s", name, status.Phase, status.Message)
	case aborted(r):
		return Pause{}, fmt.Errorf("the release of Rollout %s was aborted, so there is nothing to approve: %s", name, status.Message)
	case step != 0 && step < current.CurrentStepIndex:
		return Pause{}, fmt.Errorf("Rollout %s has left step %d, it is at step %d of %d now (%s)",
			name, step, current.CurrentStepIndex, len(steps(r)), current.CurrentStepState)
	case current.CurrentStepState == api.StepReady:
		return Pause{}, fmt.Errorf("step %d of Rollout %s has been approved already; follow it with: %s get rollout %s -n %s -w",
			current.CurrentStepIndex, name, command, r.Name, r.Namespace)
	case current.CurrentStepState == api.StepMetricsAnalysis:
		return Pause{}, fmt.Errorf("step %d of Rollout %s is being measured and cannot be approved yet: %s. See how with: %s analysis get %s -n %s; or go on whatever the metrics say: %[4]s approve %[5]s -n %[6]s --force",
			current.CurrentStepIndex, name, status.Message, command, r.Name, r.Namespace)
	case current.CurrentStepState != api.StepPaused:
		return Pause{}, fmt.Errorf("step %d of Rollout %s cannot be approved before it is paused, it is in state %s: %s. Wait for it with: %s get rollout %s -n %s -w",
			current.CurrentStepIndex, name, current.CurrentStepState, status.Message, command, r.Name, r.Namespace)
	case step != 0 && step != current.CurrentStepIndex:
		return Pause{}, fmt.Errorf("Rollout %s is paused at step %d, not at step %d; approve that one with --step %[2]d", name, current.CurrentStepIndex, step)
	case failed(r):
		return Pause{}, fmt.Errorf("the metrics of Rollout %s failed, so that step %d cannot be approved just so: %s", name, current.CurrentStepIndex, status.Message)
	}
	return pauseOf(r, current), nil
}

func pauseOf(r *api.Rollout, current *api.CommonStatus) Pause {
	p := Pause{Step: current.CurrentStepIndex}
	if s := r.Status.Sluice; s != nil {
		p.Epoch, p.PauseSeq = s.Epoch, s.PauseSeq
	}
	return p
}

// Patch is the merge patch of the status that approves the pause which the Rollout is in, exactly the one that kubectl-kruise
// sends, bound to the version of the Rollout that was looked at.
func Patch(r *api.Rollout) ([]byte, error) {
	field := "canaryStatus"
	if r.Status.CanaryStatus == nil {
		field = "blueGreenStatus"
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": r.ResourceVersion},
		"status":   map[string]any{field: map[string]any{"currentStepState": api.StepReady}},
	})
}

// Progress says where a release stands after the pause was approved. done tells that there is nothing more to wait for; err is
// why the release will not get to its end by itself.
func Progress(r *api.Rollout, since Pause, command string) (text string, done bool, err error) {
	status, current := r.Status, common(r)
	text = fmt.Sprintf("%s: %s", status.Phase, status.Message)
	if current == nil {
		return text, true, fmt.Errorf("Rollout %s/%s has no release under way any more: %s", r.Namespace, r.Name, text)
	}
	now := pauseOf(r, current)
	switch {
	case now.Epoch != since.Epoch:
		return text, true, fmt.Errorf("another release of Rollout %s/%s has begun: %s", r.Namespace, r.Name, status.Message)
	case status.Phase == api.PhaseHealthy:
		if c := condition(r, api.ConditionSucceeded); c != nil && c.Status != corev1.ConditionTrue {
			return text, true, fmt.Errorf("the release of Rollout %s/%s did not succeed: %s", r.Namespace, r.Name, c.Message)
		}
		return fmt.Sprintf("the release of Rollout %s/%s is complete", r.Namespace, r.Name), true, nil
	case status.Phase != api.PhaseProgressing:
		return text, true, fmt.Errorf("the release of Rollout %s/%s has ended: %s", r.Namespace, r.Name, status.Message)
	}
	if aborted(r) {
		return text, true, fmt.Errorf("the release of Rollout %s/%s was aborted: %s", r.Namespace, r.Name, status.Message)
	}
	text = fmt.Sprintf("step %d of %d, %s: %s", current.CurrentStepIndex, len(steps(r)), current.CurrentStepState, status.Message)
	if now.PauseSeq > since.PauseSeq && current.CurrentStepState == api.StepPaused && asked(r) {
		return text, true, fmt.Errorf("Rollout %s/%s waits for somebody to decide at step %d of %d: %s", r.Namespace, r.Name, current.CurrentStepIndex, len(steps(r)), status.Message)
	}
	if now.PauseSeq > since.PauseSeq && current.CurrentStepState == api.StepPaused && waits(r, current.CurrentStepIndex) {
		return fmt.Sprintf("Rollout %s/%s is paused at step %d of %d; approve it with: %s approve %s -n %s",
			r.Namespace, r.Name, current.CurrentStepIndex, len(steps(r)), command, r.Name, r.Namespace), true, nil
	}
	return text, false, nil
}

// aborted reports whether the release was stopped and what it changed is still held.
func aborted(r *api.Rollout) bool {
	return r.Status.Sluice != nil && rollout.State(r.Status.Sluice.State) == rollout.StateAborted
}

// failed reports whether the release waits because its metrics failed, asked whether because they want a person.
func failed(r *api.Rollout) bool { return heldFor(r, rollout.HoldAnalysisFailed) }
func asked(r *api.Rollout) bool  { return failed(r) || heldFor(r, rollout.HoldAnalysisInconclusive) }

func heldFor(r *api.Rollout, reason api.Reason) bool {
	held := condition(r, api.ConditionHeld)
	return held != nil && held.Status == corev1.ConditionTrue && held.Reason == reason
}

// waits reports whether a step waits for approval. The last one does not when it has all replicas.
func waits(r *api.Rollout, index int32) bool {
	all := steps(r)
	if index < 1 || int(index) > len(all) {
		return true
	}
	step := all[index-1]
	passes := int(index) == len(all) && step.Replicas != nil && step.Replicas.String() == "100%" && r.Spec.Strategy.BlueGreen == nil
	return step.Pause.Duration == nil && !passes && !promoted(r, index, step)
}

// promoted reports whether metrics have passed that stand for the approval of a step: the executor is about to take them for it.
func promoted(r *api.Rollout, index int32, step api.Step) bool {
	if all := r.Status.Analysis; all == nil || all.Step == nil || all.Step.Phase != api.AnalysisPassed {
		return false
	}
	if own := step.Analysis; own != nil {
		return own.AutoPromote && !own.DryRun
	}
	whole := r.Spec.Strategy.Analysis
	return whole != nil && whole.AutoPromote && !whole.DryRun && (whole.StartingStep == nil || index >= *whole.StartingStep)
}

func steps(r *api.Rollout) []api.Step {
	switch s := r.Spec.Strategy; {
	case s.Canary != nil:
		return s.Canary.Steps
	case s.BlueGreen != nil:
		return s.BlueGreen.Steps
	}
	return nil
}

func common(r *api.Rollout) *api.CommonStatus {
	switch {
	case r.Status.CanaryStatus != nil:
		return &r.Status.CanaryStatus.CommonStatus
	case r.Status.BlueGreenStatus != nil:
		return &r.Status.BlueGreenStatus.CommonStatus
	}
	return nil
}

func condition(r *api.Rollout, kind api.ConditionType) *api.Condition {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == kind {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}
