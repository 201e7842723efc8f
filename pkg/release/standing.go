package release

// This file describes the standing of a release: it progresses by itself, waits for a person, or has ended. It calls a release complete only if the
// status is about the current Rollout and the current workload.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

// Standing is the standing of a release.
type Standing string

// Values of Standing.
const (
	// Unseen: no executor has observed the current Rollout and workload.
	Unseen Standing = "Unseen"
	// Progressing: the release goes on by itself.
	Progressing Standing = "Progressing"
	// Waiting: a step waits for approval.
	Waiting Standing = "Waiting"
	// Stuck: the release does not go on until a person fixes the cause or decides.
	Stuck Standing = "Stuck"
	// Complete: the version that the workload asks for is released, or ran already.
	Complete Standing = "Complete"
	// Failed: the release was aborted, rolled back or given up.
	Failed Standing = "Failed"
	// Disabled: the Rollout releases nothing.
	Disabled Standing = "Disabled"
)

// WorkloadStatus is the state of the workload itself. In the zero value, nothing is known of the workload.
type WorkloadStatus struct {
	Known      bool
	Generation int64
	// Held: a change of the workload waits for its release.
	Held bool
}

// StandingOf returns the standing of the release of a Rollout, and explains it to a user of program.
func StandingOf(r *api.Rollout, w WorkloadStatus, program string) (Standing, string) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	kind, workload := WorkloadOf(r)
	switch {
	case r.DeletionTimestamp != nil || status.Phase == api.PhaseTerminating:
		return Failed, fmt.Sprintf("Rollout %s is being deleted: %s", name, status.Message)
	case status.Phase == "":
		return Unseen, fmt.Sprintf("Rollout %s has not been looked at yet; if that lasts, find out why with: %s check", name, program)
	case status.ObservedGeneration < r.Generation:
		return Unseen, fmt.Sprintf("Rollout %s has not been looked at since it was changed; if that lasts, find out why with: %s check", name, program)
	case status.Phase == api.PhaseDisabled:
		return Disabled, fmt.Sprintf("Rollout %s is disabled and releases nothing; follow %s %s itself, or set spec.disabled to false", name, kind, workload)
	case status.Phase == api.PhaseDisabling:
		return Progressing, fmt.Sprintf("%s: %s", status.Phase, status.Message)
	case status.Phase == api.PhaseProgressing:
		return standingUnderWay(r, program)
	case status.Phase == api.PhaseHealthy && workloadUnseen(r, w):
		return Unseen, fmt.Sprintf("%s %s has changed, and Rollout %s has not been looked at since; if that lasts, find out why with: %s check", kind, workload, name, program)
	case status.Phase == api.PhaseHealthy:
		return endedStanding(r)
	}
	if c := heldCondition(r); c != nil {
		return Stuck, fmt.Sprintf("Rollout %s is held: %s", name, c.Message)
	}
	return Unseen, fmt.Sprintf("%s: %s", status.Phase, status.Message)
}

// workloadUnseen reports whether the workload has changed since the executor wrote the status.
func workloadUnseen(r *api.Rollout, w WorkloadStatus) bool {
	current := r.Status.Common()
	return w.Known && (w.Held || current != nil && current.ObservedWorkloadGeneration != w.Generation)
}

func endedStanding(r *api.Rollout) (Standing, string) {
	name := r.Namespace + "/" + r.Name
	c := FindCondition(r, api.ConditionSucceeded)
	switch {
	case c == nil:
		return Complete, fmt.Sprintf("Rollout %s is healthy, and no release is under way", name)
	case c.Status != corev1.ConditionTrue:
		return Failed, fmt.Sprintf("the release of Rollout %s did not succeed: %s", name, c.Message)
	}
	return Complete, fmt.Sprintf("the release of Rollout %s is complete", name)
}

func standingUnderWay(r *api.Rollout, program string) (Standing, string) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	current := r.Status.Common()
	switch {
	case IsAborted(r):
		return Failed, fmt.Sprintf("the release of Rollout %s was aborted: %s", name, status.Message)
	case r.Spec.Strategy.Paused:
		return Stuck, fmt.Sprintf("Rollout %s is paused as a whole; let it go on with: %s resume %s -n %s", name, program, r.Name, r.Namespace)
	case heldCondition(r) != nil:
		return Stuck, fmt.Sprintf("Rollout %s is held: %s", name, heldCondition(r).Message)
	case current == nil || !inStep(current):
		return Progressing, fmt.Sprintf("%s: %s", status.Phase, status.Message)
	case waitsForApproval(r, current):
		return Waiting, DescribeApproval(r, current, program)
	}
	return Progressing, DescribeCurrentStep(r, current)
}

func inStep(current *api.CommonStatus) bool {
	return current.CurrentStepIndex > 0 && current.FinalisingStep == ""
}

// DescribeApproval says that a step waits for approval, and names the command that approves it.
func DescribeApproval(r *api.Rollout, current *api.CommonStatus, program string) string {
	return fmt.Sprintf("Rollout %s/%s is paused at step %d of %d; approve it with: %s approve %s -n %s",
		r.Namespace, r.Name, current.CurrentStepIndex, len(Steps(r)), program, r.Name, r.Namespace)
}

// DescribeCurrentStep names the current step of a release and its state.
func DescribeCurrentStep(r *api.Rollout, current *api.CommonStatus) string {
	return fmt.Sprintf("step %d of %d, %s: %s", current.CurrentStepIndex, len(Steps(r)), current.CurrentStepState, r.Status.Message)
}
