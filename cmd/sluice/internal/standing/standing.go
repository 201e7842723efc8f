// Package standing says where a release stands: whether it goes on by itself, waits for somebody, or has ended, and how. It reads
// and writes nothing.
//
// Its one invariant: a release is called complete only by a status that is about the Rollout and the workload as they are now, never
// by one that is older than the change that asked for the release.
package standing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/cmd/internal/tree"
	"sluice.dev/sluice/pkg/api"
)

// Kind is where a release stands.
type Kind string

// Kinds of standing.
const (
	// Unseen: no executor has looked at what is there now.
	Unseen Kind = "Unseen"
	// Progressing: it goes on by itself.
	Progressing Kind = "Progressing"
	// Waiting: a step waits for approval.
	Waiting Kind = "Waiting"
	// Stuck: it stands still until somebody mends or decides something else.
	Stuck Kind = "Stuck"
	// Complete: what the workload asks for is released, or was there already.
	Complete Kind = "Complete"
	// Failed: it was aborted, rolled back or given up.
	Failed Kind = "Failed"
	// Disabled: the Rollout releases nothing.
	Disabled Kind = "Disabled"
)

// Workload is what the workload itself tells. The zero value is one of which nothing is known.
type Workload struct {
	Known      bool
	Generation int64
	// Held: a change of it waits to be released.
	Held bool
}

// Of says where the release of a Rollout stands, and, to a user of program, what that means.
func Of(r *api.Rollout, w Workload, program string) (Kind, string) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	kind, workload := tree.Workload(r)
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
		return underWay(r, program)
	case status.Phase == api.PhaseHealthy && unseen(r, w):
		return Unseen, fmt.Sprintf("%s %s has changed, and Rollout %s has not been looked at since; if that lasts, find out why with: %s check", kind, workload, name, program)
	case status.Phase == api.PhaseHealthy:
		return ended(r)
	}
	if c := held(r); c != nil {
		return Stuck, fmt.Sprintf("Rollout %s is held: %s", name, c.Message)
	}
	return Unseen, fmt.Sprintf("%s: %s", status.Phase, status.Message)
}

// unseen reports whether the workload has changed since the status was written.
func unseen(r *api.Rollout, w Workload) bool {
	current := Common(r)
	return w.Known && (w.Held || current != nil && current.ObservedWorkloadGeneration != w.Generation)
}

func ended(r *api.Rollout) (Kind, string) {
	name := r.Namespace + "/" + r.Name
	c := Condition(r, api.ConditionSucceeded)
	switch {
	case c == nil:
		return Complete, fmt.Sprintf("Rollout %s is healthy, and no release is under way", name)
	case c.Status != corev1.ConditionTrue:
		return Failed, fmt.Sprintf("the release of Rollout %s did not succeed: %s", name, c.Message)
	}
	return Complete, fmt.Sprintf("the release of Rollout %s is complete", name)
}

func underWay(r *api.Rollout, program string) (Kind, string) {
	status, name := r.Status, r.Namespace+"/"+r.Name
	current := Common(r)
	switch {
	case Aborted(r):
		return Failed, fmt.Sprintf("the release of Rollout %s was aborted: %s", name, status.Message)
	case r.Spec.Strategy.Paused:
		return Stuck, fmt.Sprintf("Rollout %s is paused as a whole; let it go on with: %s resume %s -n %s", name, program, r.Name, r.Namespace)
	case held(r) != nil:
		return Stuck, fmt.Sprintf("Rollout %s is held: %s", name, held(r).Message)
	case current == nil || !inStep(current):
		return Progressing, fmt.Sprintf("%s: %s", status.Phase, status.Message)
	case current.CurrentStepState == api.StepPaused && Waits(r, current.CurrentStepIndex):
		return Waiting, Approvable(r, current, program)
	}
	return Progressing, At(r, current)
}

func inStep(current *api.CommonStatus) bool {
	return current.CurrentStepIndex > 0 && current.FinalisingStep == ""
}

// Approvable says that a step waits for approval, and how it gets that.
func Approvable(r *api.Rollout, current *api.CommonStatus, program string) string {
	return fmt.Sprintf("Rollout %s/%s is paused at step %d of %d; approve it with: %s approve %s -n %s",
		r.Namespace, r.Name, current.CurrentStepIndex, len(Steps(r)), program, r.Name, r.Namespace)
}

// At is the step that a release is at, and what it does there.
func At(r *api.Rollout, current *api.CommonStatus) string {
	return fmt.Sprintf("step %d of %d, %s: %s", current.CurrentStepIndex, len(Steps(r)), current.CurrentStepState, r.Status.Message)
}
