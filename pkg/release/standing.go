package release

// This file says where a release stands: whether it goes on by itself, waits for somebody, or has ended, and how. It calls a release complete only by a
// status that is about the Rollout and the workload as they are now.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

// Standing is where a release stands.
type Standing string

// Kinds of standing.
const (
	// Unseen: no executor has reconciled the present version of the workload.
	Unseen Standing = "Unseen"
	// Progressing: it goes on by itself.
	Progressing Standing = "Progressing"
	// Waiting: a step waits for approval.
	Waiting Standing = "Waiting"
	// Stuck: it stands still until somebody mends or decides something else.
	Stuck Standing = "Stuck"
	// Complete: what the workload asks for is released, or was there already.
	Complete Standing = "Complete"
	// Failed: it was aborted, rolled back or given up.
	Failed Standing = "Failed"
	// Disabled: the Rollout releases nothing.
	Disabled Standing = "Disabled"
)

// WorkloadStatus has the facts of the workload itself. The zero value means that nothing is known.
type WorkloadStatus struct {
	Known      bool
	Generation int64
	// Held: a change of it waits to be released.
	Held bool
}

// StandingOf says where the release of a Rollout stands, and, to a user of program, what that means.
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

// workloadUnseen reports whether the workload has changed since the status was written.
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

// DescribeApproval says that a step waits for approval, and how it gets that.
func DescribeApproval(r *api.Rollout, current *api.CommonStatus, program string) string {
	return fmt.Sprintf("Rollout %s/%s is paused at step %d of %d; approve it with: %s approve %s -n %s",
		r.Namespace, r.Name, current.CurrentStepIndex, len(Steps(r)), program, r.Name, r.Namespace)
}

// DescribeCurrentStep is the step that a release is at, and what it does there.
func DescribeCurrentStep(r *api.Rollout, current *api.CommonStatus) string {
	return fmt.Sprintf("step %d of %d, %s: %s", current.CurrentStepIndex, len(Steps(r)), current.CurrentStepState, r.Status.Message)
}
