package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func typesUID(s string) types.UID { return types.UID(s) }

// planInStep carries out the current step. First it checks for events that interrupt a release, most urgent first.
func (p *planner) planInStep() {
	if p.endInterruptedRelease() || !p.ensureHeld() || !p.prepareScaleFromZero() {
		return
	}
	if p.newVersion() {
		if !p.holdNewVersion() {
			p.startFinalising(api.FinaliseContinuous, "Workload is continuous release")
		}
		return
	}
	if p.returnGivesWay() {
		return
	}
	p.m.RolloutID = p.seen.Workload.RolloutID
	if p.abortOnFailedMetrics() || p.holdStoppedRelease() || p.restartEditedStep() || p.jumpToStep() {
		return
	}
	switch p.currentState() {
	case rollout.StateBeforeUpgrade:
		p.planBeforeUpgrade()
	case rollout.StateUpgrade:
		p.planUpgrade()
	case rollout.StateTrafficRouting:
		p.planTrafficRouting()
	case rollout.StateAnalysis:
		p.planAnalysis()
	case rollout.StatePaused:
		p.planPaused()
	case rollout.StateReady:
		p.planReady()
	case rollout.StateCompleted:
		p.commitFirst = true // to plan the last step again would revert the actions of finalising
		p.startFinalising(api.FinaliseSuccess, "Rollout has been completed and some closing work is being done")
	}
	p.enforceDeadline()
}

// endInterruptedRelease ends a release whose workload or purpose is gone. A rollback precedes a pause of the Rollout.
func (p *planner) endInterruptedRelease() bool {
	switch {
	case p.workloadGone():
		p.startFinalising(api.FinaliseWorkloadGone, "the workload was deleted during its release")
	case p.seen.Spec.Disabled:
		p.startFinalising(api.FinaliseDisabled, "Disabling rollout, release resources")
	case p.nothingNew():
		p.startFinalising(api.FinaliseSuccess, "the held change has the pod template that runs already (only its rollout-id is new, or it was taken back), so there is nothing to release")
	case p.rolledBack() && !p.rollingBackInBatches():
		p.rollBack()
	default:
		return false
	}
	return true
}

// workloadGone reports whether the workload of the release no longer exists, even if another workload has its name.
func (p *planner) workloadGone() bool {
	w := p.seen.Workload
	return w == nil || w.Deleting || typesUID(w.UID) != p.m.WorkloadUID
}

// rolledBack reports whether the workload's template is the template of the stable revision again.
func (p *planner) rolledBack() bool {
	for _, set := range p.seen.Workload.Revisions {
		if set.Hash == p.m.StableRevision {
			return set.Revision == p.seen.Workload.Revision
		}
	}
	return false
}

func (p *planner) newVersion() bool { return p.seen.Workload.Revision != p.m.CanaryRevision }

// ensureHeld holds a workload that rolls during its release although the admission policies should hold it.
func (p *planner) ensureHeld() bool {
	if w := p.seen.Workload; (w.Paused || p.mayRoll()) && w.Held && w.Adopted {
		return p.lostPodsRestored()
	}
	switch w := p.seen.Workload; {
	case p.inPlace() && !w.TakenOver && !w.Paused:
		p.takeOverWorkload()
	case p.isBlueGreen() && w.UpdateMechanism == rollout.MechanismRollingUpdate && w.TakenOver && w.Held && w.Adopted:
		p.pauseAtStep()
	default:
		p.addActions(rollout.HoldWorkload{Workload: p.seen.Spec.Workload})
	}
	return false
}

// blockingProblem returns the first problem that stops a release, or nil.
func (p *planner) blockingProblem() *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Warning {
			return problem
		}
	}
	return nil
}

// releaseStopped reports whether a pause, an unsupported field or a problem stops the release.
func (p *planner) releaseStopped() bool {
	return p.seen.Spec.Paused || len(p.seen.Spec.Unsupported) > 0 || p.blockingProblem() != nil
}

// holdStoppedRelease stops the release where it is, because its owner paused it or an object that it needs is missing.
func (p *planner) holdStoppedRelease() bool {
	if p.seen.Spec.Paused {
		p.waitForEvent("Rollout has been paused, you can resume it by kube-cli")
		return true
	}
	if len(p.seen.Spec.Unsupported) > 0 {
		p.holdFor(p.unsupportedFields())
		return true
	}
	if problem := p.blockingProblem(); problem != nil {
		p.holdFor(*problem)
		return true
	}
	return false
}

// followPlan makes the steps of the spec those that the release follows.
func (p *planner) followPlan() {
	p.m.PlanHash, p.m.Steps = p.seen.Spec.Hash, int32(len(p.seen.Spec.Steps))
}

// restartEditedStep restarts the current step if its plan was edited: exposure follows the new plan, and an approval of the old plan does not count
// for the new one.
func (p *planner) restartEditedStep() bool {
	if p.m.PlanHash == p.seen.Spec.Hash {
		return false
	}
	step := p.stepOfNewPlan()
	if !p.permitted(step) {
		return true
	}
	message := "the steps of the Rollout were changed"
	if was := p.seen.Status.Sluice.Step; step != was {
		message = fmt.Sprintf("the number of steps of the Rollout was changed, and the present pods belong to step %d, no longer to step %d", step, was)
	}
	p.followPlan()
	p.goToStep(step)
	p.enterState(rollout.StateBeforeUpgrade, "PlanChanged", message, "")
	return true
}

// stepOfNewPlan returns the step at which the release goes on after an edit of its steps. If their number is the same, that is the current one. If
// the number has changed, it is the first step that asks for at least the present new pods, as in OpenKruise, and the current one if that does. But an
// edit never reaches the last step of all pods, which takes no approval, unless it is the only one or the new pods have replaced all others: beside
// the pods of a canary, the stable version still has its pods and its requests.
func (p *planner) stepOfNewPlan() int32 {
	total, current := int32(len(p.seen.Spec.Steps)), max(1, p.seen.Status.Sluice.Step)
	if p.m.Steps == 0 || p.m.Steps == total { // 0: an earlier version of Sluice wrote the status
		return min(current, total)
	}
	have, all := p.replacedPods()
	covers := func(n int32) bool { return p.podsOf(p.seen.Spec.Steps[n-1], all) >= have }
	step := current
	if current > total || !covers(current) {
		for step = 1; step < total && !covers(step); {
			step++
		}
	}
	replaced := p.replacesInPlace() && have >= all
	if step > 1 && !replaced && p.seen.Spec.StepPasses(step) {
		step--
	}
	return step
}

// keepStepOfOldPlan keeps the number of the current step until the release follows an edited plan, also if the plan has fewer steps: stepOfNewPlan
// needs this number. A release that is held does not follow an edit yet.
func (p *planner) keepStepOfOldPlan() {
	if s := p.seen.Status.Sluice; s != nil && p.currentState().InStep() && p.m.PlanHash != p.seen.Spec.Hash {
		p.m.Step = max(p.m.Step, s.Step)
	}
}

// replacedPods returns the number of pods that the steps have created so far, and the number of all pods that they create.
func (p *planner) replacedPods() (have, all int32) {
	w := p.seen.Workload
	switch {
	case p.m.RollbackReplicas > 0:
		return p.m.RollbackReplicas - (p.totalReplicas() - p.templateRevision().Replicas), p.m.RollbackReplicas
	case p.inPlace():
		return p.templateRevision().Replicas, w.DesiredReplicas
	case p.canaryLost():
		return 0, w.DesiredReplicas
	}
	return p.seen.Canary.Replicas, w.DesiredReplicas
}

// reasonJumped is the reason of the transition to a step that a user asked for.
const reasonJumped = "Jumped"

// jumpToStep follows a nextStepIndex that a user set.
func (p *planner) jumpToStep() bool {
	next := p.c.NextStepIndex
	if next == p.nextIndex() {
		return false
	}
	if refusal := p.fleetRefusal(next); refusal != nil && next > p.m.Step {
		p.noteRevertedEdit(fmt.Sprintf("nextStepIndex %d was taken back: %s", next, refusal.message))
		p.c.NextStepIndex = p.nextIndex()
		return false
	}
	if next > p.m.Step && !p.permitted(next) {
		return true
	}
	p.goToStep(next)
	p.enterState(rollout.StateBeforeUpgrade, reasonJumped, fmt.Sprintf("nextStepIndex was set to %d", next), p.seen.Editor)
	return true
}

// goToStep makes a step the current step. It also moves nextStepIndex, which would otherwise read as a command to jump.
func (p *planner) goToStep(n int32) {
	p.m.Step, p.m.StepSince = n, nil
	p.c.NextStepIndex = p.nextIndex()
}

// nextIndex returns the step after the current step, or -1 after the last step.
func (p *planner) nextIndex() int32 { return rollout.NextStepIndex(p.m.Step, len(p.seen.Spec.Steps)) }
