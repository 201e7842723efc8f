package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// stepProgressing reports whether the current step is getting its pods, endpoints and traffic, and no person delays it. The deadline limits this
// time. A step that was reached has met its deadline, even if its pods fail later.
func (p *planner) stepProgressing() bool {
	switch p.currentState() {
	case rollout.StateBeforeUpgrade, rollout.StateUpgrade, rollout.StateTrafficRouting:
	default:
		return false
	}
	w := p.seen.Workload
	return p.seen.Spec.ProgressDeadline > 0 && w != nil && w.DesiredReplicas > 0 && !p.releaseStopped() && (p.held == nil || p.held.Reason == rollout.ReasonProgressDeadlineExceeded)
}

// updateStepSince keeps the start time of the step. A step that a person delays gets its whole time again. So does a step with actions left when its
// time is over, because then no executor was running.
func (p *planner) updateStepSince() {
	if !p.stepProgressing() {
		p.m.StepSince = nil
		return
	}
	again := p.deadlinePassed() && len(p.actions) > 0
	if p.m.StepSince == nil || again {
		p.commitFirst = p.commitFirst || again // after the actions, a planner would see nothing to do and a late step
		since := microTime(p.now)
		p.m.StepSince = &since
	}
	if due := p.stepDeadline(); p.now.Before(due) {
		p.wakeAt(due)
	}
}

// stepDeadline returns the end of the step's time.
func (p *planner) stepDeadline() time.Time { return p.m.StepSince.Add(p.seen.Spec.ProgressDeadline) }

func (p *planner) deadlinePassed() bool {
	return p.m.StepSince != nil && !p.now.Before(p.stepDeadline())
}

// enforceDeadline fails a step that is still waiting after its time. If the missing pods or routes arrive later, a release that only stalled goes on
// by itself.
func (p *planner) enforceDeadline() {
	if !p.waiting || p.held != nil || !p.stepProgressing() || !p.deadlinePassed() {
		return
	}
	why := fmt.Sprintf("step %d of %d was not ready within %s (progressDeadlineSeconds): %s",
		p.m.Step, len(p.seen.Spec.Steps), p.seen.Spec.ProgressDeadline, p.unmetCondition())
	if p.seen.Spec.OnDeadline == api.DeadlineAbort {
		p.waiting, p.doing, p.wake = false, "", time.Time{} // the release waits for nothing any more
		p.abortRelease(api.FinaliseAborted, string(rollout.ReasonProgressDeadlineExceeded), why, "")
		p.commitFirst = true // once its pods are gone, the step would have actions left and would get its whole time again
		return
	}
	p.holdFor(rollout.Problem{Reason: rollout.ReasonProgressDeadlineExceeded, Message: fmt.Sprintf(
		"%s. It goes on by itself when it is ready; see what keeps its pods: kubectl describe pods -n %s; or take the release back: sluice abort %s -n %s",
		rollout.CapitalizeFirst(why), p.seen.Namespace, p.seen.Name, p.seen.Namespace)})
}

// unmetNewPods describes the missing pods of a step whose new pods replace others.
func unmetNewPods(there bool, want int32) string {
	if there {
		return "not all of the old pods that its new ones replace are gone"
	}
	return fmt.Sprintf("not all of its %d new pods are ready", want)
}

// unmetCondition describes the condition that the step waits for. The text does not count pods, because each different text would be a write and an
// event.
func (p *planner) unmetCondition() string {
	if p.lacks != "" {
		return p.lacks
	}
	return p.doing
}
