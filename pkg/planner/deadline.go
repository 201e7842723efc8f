package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// stepProgressing reports whether the current step still waits for its pods, its endpoints or its traffic, and no person holds it up. A deadline
// bounds this time only: a step that was reached has met it, even if it loses pods later.
func (p *planner) stepProgressing() bool {
	switch p.currentState() {
	case rollout.StateBeforeUpgrade, rollout.StateUpgrade, rollout.StateTrafficRouting:
	default:
		return false
	}
	w := p.seen.Workload
	return p.seen.Spec.ProgressDeadline > 0 && w != nil && w.DesiredReplicas > 0 && !p.releaseStopped() && (p.held == nil || p.held.Reason == rollout.ReasonProgressDeadlineExceeded)
}

// updateStepSince keeps the time since when the step is being reached. A step that a person held up gets its whole time again. So does a step that
// still needed actions when its time was over: no executor was there to take them.
func (p *planner) updateStepSince() {
	if !p.stepProgressing() {
		p.m.StepSince = nil
		return
	}
	again := p.deadlinePassed() && len(p.actions) > 0
	if p.m.StepSince == nil || again {
		p.commitFirst = p.commitFirst || again // a later run would see no action due, and a step that is late
		since := microTime(p.now)
		p.m.StepSince = &since
	}
	if due := p.stepDeadline(); p.now.Before(due) && (p.wake.IsZero() || due.Before(p.wake)) {
		p.wake = due
	}
}

// stepDeadline is when the time of the step is over.
func (p *planner) stepDeadline() time.Time { return p.m.StepSince.Add(p.seen.Spec.ProgressDeadline) }

func (p *planner) deadlinePassed() bool {
	return p.m.StepSince != nil && !p.now.Before(p.stepDeadline())
}

// enforceDeadline fails a step that still waits for something when its time is over. If the wait ends after all, a release that was only held goes
// on by itself.
func (p *planner) enforceDeadline() {
	if !p.waiting || p.held != nil || !p.stepProgressing() || !p.deadlinePassed() {
		return
	}
	why := fmt.Sprintf("step %d of %d was not ready within %s (progressDeadlineSeconds): %s",
		p.m.Step, len(p.seen.Spec.Steps), p.seen.Spec.ProgressDeadline, p.unmetCondition())
	if p.seen.Spec.OnDeadline == api.DeadlineAbort {
		p.waiting, p.doing, p.wake = false, "", time.Time{} // there is nothing more to wait for
		p.abortRelease(api.FinaliseAborted, string(rollout.ReasonProgressDeadlineExceeded), why, "")
		p.commitFirst = true // without its pods the step would have something to do again, and its whole time
		return
	}
	p.holdFor(rollout.Problem{Reason: rollout.ReasonProgressDeadlineExceeded, Message: fmt.Sprintf(
		"%s. It goes on by itself when it is ready; see what keeps its pods: kubectl describe pods -n %s; or take the release back: sluice abort %s -n %s",
		rollout.CapitalizeFirst(why), p.seen.Namespace, p.seen.Name, p.seen.Namespace)})
}

// unmetNewPods says what a step lacks whose pods come in the place of others.
func unmetNewPods(there bool, want int32) string {
	if there {
		return "not all of the old pods that its new ones replace are gone"
	}
	return fmt.Sprintf("not all of its %d new pods are ready", want)
}

// unmetCondition says what the step waits for, in words that stay the same from pod to pod: each other sentence would be a write, and an event.
func (p *planner) unmetCondition() string {
	if p.lacks != "" {
		return p.lacks
	}
	return p.doing
}
