package planner

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// projectStatus writes the fields that users and other programs read: phase, conditions, messages and canaryStatus. All derive from the machine's
// state. A time changes only together with its field, so the executor never writes an unchanged status again.
func (p *planner) projectStatus() {
	if p.doing != "" && p.stableUnready() {
		p.doing += "; no pod of the stable version is ready"
	}
	p.m.Traffic = p.newVersionTraffic()
	s := &p.status
	s.ObservedGeneration = p.seen.Generation
	s.Phase = p.rolloutPhase()
	p.projectStep()
	p.projectConditions()
	s.Message = p.statusMessage()
	p.m.WakeAt = nil
	if !p.wake.IsZero() {
		wake := microTime(p.wake)
		p.m.WakeAt = &wake
	}
}

func (p *planner) rolloutPhase() api.Phase {
	switch p.currentState() {
	case rollout.StateIdle:
		// Healthy promises a hold of the next change, which needs an adopted workload.
		if w := p.seen.Workload; w == nil || !w.Adopted || !p.seen.Finalizer {
			return api.PhaseInitial
		}
		return api.PhaseHealthy
	case rollout.StateDisabled:
		return api.PhaseDisabled
	case rollout.StateTerminated:
		return api.PhaseTerminating
	case rollout.StateFinalising:
		switch p.m.FinaliseReason {
		case api.FinaliseDeleting:
			return api.PhaseTerminating
		case api.FinaliseDisabled:
			return api.PhaseDisabling
		}
	}
	return api.PhaseProgressing
}

// stepState returns the state of the step in canaryStatus.
func (p *planner) stepState() api.StepState {
	switch state := p.currentState(); {
	case state.InStep():
		return api.StepState(state)
	case state == rollout.StateInitializing:
		return api.StepBeforeUpgrade
	case state == rollout.StateFinalising && p.m.FinaliseReason != api.FinaliseSuccess, state == rollout.StateAborted:
		return p.interruptedStep()
	}
	return api.StepCompleted
}

// interruptedStep returns the state of the step when the release was interrupted. An approved step shows as paused, because the executor will not
// follow its approval.
func (p *planner) interruptedStep() api.StepState {
	for t := range p.stateTransitions() {
		switch from := rollout.State(t.From); {
		case from == rollout.StateFinalising || from == rollout.StateAborted:
		case from == rollout.StateReady:
			return api.StepPaused
		case from.InStep():
			return api.StepState(from)
		default:
			return api.StepBeforeUpgrade
		}
	}
	return api.StepBeforeUpgrade
}

// interruptionMessage explains why the release was interrupted.
func (p *planner) interruptionMessage() string {
	if t := p.newestTransition(); t != nil && rollout.State(t.To) == rollout.StateFinalising && t.Message != "" {
		return t.Message
	}
	return "Rollout progressing has been canceled"
}

func (p *planner) projectStep() {
	c, w := p.c, p.seen.Workload
	c.CurrentStepState = p.stepState()
	c.CurrentStepIndex = p.m.Step
	c.NextStepIndex = p.nextIndex()
	c.FinalisingStep = ""
	if p.currentState() == rollout.StateFinalising {
		c.FinalisingStep = api.FinalisingStep(p.m.Finalise)
	}
	c.Message = p.doing
	if c.Message == "" && p.rolloutPhase() == api.PhaseHealthy {
		c.Message = "workload deployment is completed"
	}
	if w != nil {
		c.ObservedWorkloadGeneration = w.Generation
	}
	c.PodTemplateHash = p.podTemplateHash()
	if c.PodTemplateHash != "" {
		p.m.CanaryHash = c.PodTemplateHash
	}
	p.projectRevisions()
	p.projectPods()
	p.status.CurrentStepIndex, p.status.CurrentStepState = c.CurrentStepIndex, c.CurrentStepState
}

// projectRevisions shows the revisions of the release.
func (p *planner) projectRevisions() {
	m, c := p.m, p.c
	c.StableRevision, c.RolloutHash, c.ObservedRolloutID = m.StableRevision, m.PlanHash, m.RolloutID
	*rollout.StatusRevision(&p.status) = m.CanaryHash
	if c.ObservedRolloutID == "" {
		c.ObservedRolloutID = rollout.ReleaseID("", *m)
	}
}

// podTemplateHash returns the hash that distinguishes the new pods: the hash of the canary's pods, or else of the workload's own new pods.
func (p *planner) podTemplateHash() string {
	switch {
	case p.currentState() == rollout.StateDisabled:
		return "" // the workload is unmanaged
	case !p.canaryLost():
		return p.seen.Canary.Hash
	}
	if w := p.seen.Workload; w != nil {
		for _, set := range w.Revisions {
			if set.Revision == p.m.CanaryRevision {
				return set.Hash
			}
		}
	}
	return ""
}

func (p *planner) projectConditions() {
	switch state := p.currentState(); {
	case state == rollout.StateIdle || state == rollout.StateDisabled:
		p.projectEndedRelease()
	case state == rollout.StateTerminated || p.finalisingFor(api.FinaliseDeleting):
		p.setCondition(api.ConditionTerminating, corev1.ConditionTrue, api.ReasonInTerminating, "Rollout is in terminating")
	default:
		p.dropCondition(api.ConditionSucceeded)
		reason, message := p.progressingReason()
		p.setCondition(api.ConditionProgressing, corev1.ConditionTrue, reason, message)
	}
	p.projectReplicasAboveStep()
	p.projectWarning(api.ConditionStableAtRisk, p.seen.AtRisk, !p.workloadGone() && (p.stablePods() > 0 || p.stableReturns()))
	p.projectWarning(api.ConditionCanaryUncovered, p.seen.Uncovered, !p.workloadGone())
	p.projectWarning(api.ConditionSessionsTorn, p.seen.Torn, !p.workloadGone())
	p.projectWarning(api.ConditionMatchesDropped, p.seen.Dropped, !p.workloadGone())
	held := p.held
	if held == nil {
		held = p.warningProblem()
	}
	p.remarkHold(p.findCondition(api.ConditionStalled), held)
	if held == nil {
		p.dropCondition(api.ConditionStalled)
		p.dropCondition(api.ConditionRouteConflict)
		return
	}
	if p.setCondition(api.ConditionStalled, corev1.ConditionTrue, held.Reason, held.Message) {
		p.kubeEvents = append(p.kubeEvents, rollout.KubeEvent{Warning: true, Reason: string(held.Reason), Message: held.Message})
	}
	if held.Reason == rollout.ReasonRouteConflict {
		p.setCondition(api.ConditionRouteConflict, corev1.ConditionTrue, held.Reason, held.Message)
	} else {
		p.dropCondition(api.ConditionRouteConflict)
	}
}

// projectReplicasAboveStep shows pods of the new version that no step has asked for. Controllers create some when a user scales a workload, in
// proportion to the versions or all in the new version. They may also replace a lost pod with a new pod.
func (p *planner) projectReplicasAboveStep() {
	if p.inPlace() && !p.isBlueGreen() && p.currentState().InStep() && p.seen.Workload != nil && !p.newVersion() {
		if have, want := p.templateRevision().Replicas, p.desiredNewPods(); have > want {
			p.setCondition(api.ConditionReplicasAboveStep, corev1.ConditionTrue, api.ReasonMorePods, fmt.Sprintf(
				"%d pods run the new version, %d more than step %d asks for: pods that came with scaling, with a later step or in the place of lost ones are not replaced back; "+
					"to take all of them back: sluice abort %s -n %s", have, have-want, p.m.Step, p.seen.Name, p.seen.Namespace))
			return
		}
	}
	p.dropCondition(api.ConditionReplicasAboveStep)
}

// projectWarning shows a problem that does not stall a release, as long as it matters to the release.
func (p *planner) projectWarning(kind api.ConditionType, problem *rollout.Problem, matters bool) {
	if problem == nil || !matters || !p.currentState().Releasing() {
		p.dropCondition(kind)
		return
	}
	if p.setCondition(kind, corev1.ConditionTrue, problem.Reason, problem.Message) {
		p.kubeEvents = append(p.kubeEvents, rollout.KubeEvent{Warning: true, Reason: string(problem.Reason), Message: problem.Message})
	}
}

// warningProblem returns a problem that is shown during a release and does not stop it.
func (p *planner) warningProblem() *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; problem.Warning && p.currentState().Releasing() {
			return problem
		}
	}
	return nil
}

// projectEndedRelease closes the conditions of a release that has ended.
func (p *planner) projectEndedRelease() {
	p.dropCondition(api.ConditionTerminating)
	progressing := p.findCondition(api.ConditionProgressing)
	if progressing == nil || progressing.Status == corev1.ConditionFalse {
		return
	}
	succeeded, message := corev1.ConditionFalse, "Rollout progressing has been canceled"
	if p.m.FinaliseReason == api.FinaliseSuccess {
		succeeded, message = corev1.ConditionTrue, "Rollout progressing has been completed"
	}
	p.setCondition(api.ConditionProgressing, corev1.ConditionFalse, api.ReasonCompleted, message)
	p.setCondition(api.ConditionSucceeded, succeeded, api.ReasonCompleted, message)
}

func (p *planner) progressingReason() (api.Reason, string) {
	switch state := p.currentState(); {
	case state == rollout.StateFinalising && p.m.FinaliseReason == api.FinaliseSuccess:
		return api.ReasonFinalising, "Rollout has been completed and some closing work is being done"
	case state == rollout.StateFinalising && (p.m.FinaliseReason == api.FinaliseContinuous || p.m.FinaliseReason == api.FinaliseSuperseded):
		return api.ReasonInitializing, "Workload is continuous release"
	case state == rollout.StateFinalising && p.m.FinaliseReason == api.FinaliseRollbackInBatch:
		return api.ReasonInitializing, p.interruptionMessage()
	case state == rollout.StateFinalising:
		return api.ReasonCancelling, p.interruptionMessage()
	case state == rollout.StateAborted:
		return api.ReasonAborted, p.abortMessage()
	case p.seen.Spec.Paused:
		return api.ReasonPaused, "Rollout has been paused, you can resume it by kube-cli"
	case p.held != nil && p.held.Reason == rollout.ReasonProgressDeadlineExceeded:
		return api.ReasonFailed, p.held.Message
	case state == rollout.StateInitializing:
		return api.ReasonInitializing, "Rollout is in Progressing"
	}
	if p.doing != "" {
		return api.ReasonInRolling, p.doing
	}
	return api.ReasonInRolling, "Rollout is in Progressing"
}

// statusMessage returns the one sentence for kubectl get. It describes the problem that stalls the release, or else the awaited event, or else the
// end of the release.
func (p *planner) statusMessage() string {
	if p.held != nil {
		return p.held.Message
	}
	if p.doing != "" {
		return p.doing
	}
	switch p.rolloutPhase() {
	case api.PhaseInitial:
		return "the workload is being adopted"
	case api.PhaseHealthy:
		if c := p.findCondition(api.ConditionProgressing); c != nil {
			return c.Message
		}
		return "rollout is healthy"
	case api.PhaseDisabled:
		return "Rollout is disabled"
	case api.PhaseDisabling:
		return "Disabling rollout, release resources"
	case api.PhaseTerminating:
		return "Rollout is in terminating"
	}
	_, message := p.progressingReason()
	return message
}

func (p *planner) findCondition(kind api.ConditionType) *api.Condition {
	for i := range p.status.Conditions {
		if p.status.Conditions[i].Type == kind {
			return &p.status.Conditions[i]
		}
	}
	return nil
}

// setCondition reports whether more than the times changed.
func (p *planner) setCondition(kind api.ConditionType, status corev1.ConditionStatus, reason api.Reason, message string) bool {
	now := metav1.NewTime(p.now.Truncate(time.Second))
	c := p.findCondition(kind)
	if c == nil {
		p.status.Conditions = append(p.status.Conditions, api.Condition{Type: kind, LastTransitionTime: now})
		c = &p.status.Conditions[len(p.status.Conditions)-1]
	}
	if c.Status == status && c.Reason == reason && c.Message == message {
		return false
	}
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason, c.Message, c.LastUpdateTime = status, reason, message, now
	return true
}

func (p *planner) dropCondition(kind api.ConditionType) {
	kept := p.status.Conditions[:0]
	for _, c := range p.status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	p.status.Conditions = kept
}
