package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func microTime(t time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(t.Truncate(time.Microsecond))
}

// currentStep returns the step that is under way.
func (p *planner) currentStep() rollout.Step {
	step, _ := p.seen.Spec.Step(p.stepNumber())
	return step
}

// planBeforeUpgrade prepares the Services. With a separate canary Service, the stable Service selects only stable pods before the first canary pod
// exists. A step without traffic restores the routing, as in OpenKruise.
func (p *planner) planBeforeUpgrade() {
	if p.seen.Spec.Routing != nil && !p.currentStep().RoutesTraffic() && !(p.stableCapacityReady() && p.withoutRouting()) {
		return
	}
	if p.ensurePinned() && p.ensureReached() {
		p.enterState(rollout.StateUpgrade, "Upgrade", fmt.Sprintf("Rollout is in step(%d/%d), and upgrade workload to new version", p.m.Step, len(p.seen.Spec.Steps)), "")
	}
}

func (p *planner) planUpgrade() {
	if p.stableCapacityReady() && p.ensurePinned() && p.ensureReached() && p.ensurePods() && p.ensureCanaryService() {
		p.enterState(rollout.StateTrafficRouting, "PodsReady", fmt.Sprintf("upgrade step(%d) canary pods with new versions done", p.m.Step), "")
	}
}

func (p *planner) planTrafficRouting() {
	if !p.ensureStep() || !p.jumpShown() {
		return
	}
	p.m.PauseSeq++
	p.enterState(rollout.StateAnalysis, "Routed", fmt.Sprintf("the traffic of step %d is routed", p.m.Step), "")
	p.updateRoutedAt()
}

// jumpVisible is how long a jump shows at least in currentStepState. OpenKruise takes more than 3 s for a jump, and its clients poll once a second until
// they see another state than StepPaused. Pods and routes do not wait for this.
const jumpVisible = 2 * time.Second

// jumpShown reports whether clients that poll had the time to see that the release has jumped to the step.
func (p *planner) jumpShown() bool {
	shown := p.jumpShowsUntil()
	if !p.now.Before(shown) {
		return true
	}
	p.waitUntil(shown, "Rollout has jumped to step(%d/%d), whose pods and routes are there", p.m.Step, len(p.seen.Spec.Steps))
	return false
}

// jumpShowsUntil returns the time until which a jump to the current step shows; the zero time if the release has not jumped to it.
func (p *planner) jumpShowsUntil() time.Time {
	for t := range p.stateTransitions() {
		switch {
		case rollout.State(t.To) != rollout.StateBeforeUpgrade:
		case t.Reason == reasonJumped:
			return t.Time.Add(jumpVisible)
		default:
			return time.Time{}
		}
	}
	return time.Time{}
}

// planPaused keeps the step as it is and repairs drift until the pause may end.
func (p *planner) planPaused() {
	decided := p.pauseDecision()
	if decided != nil && decided.Decision == api.DecisionApprove {
		p.leavePause()
		return
	}
	if !p.ensureStep() {
		return
	}
	if decided != nil {
		p.holdRejected(*decided)
		return
	}
	p.ensureAnalysisRuns()
	if p.blockedByMetrics() || p.approveByMetrics() {
		return
	}
	step, n, total := p.currentStep(), p.m.Step, len(p.seen.Spec.Steps)
	due := p.pauseOver()
	switch {
	case p.seen.Spec.StepPasses(n):
		p.enterState(rollout.StateReady, "LastStep", "the last step has all replicas and needs no approval", "")
	case p.seen.Spec.WaitsForApproval(n) && p.permitsPauses():
		if p.permitted(n + 1) {
			p.recordDecision(api.Approval{Decision: api.DecisionApprove, Actor: rollout.FleetActor})
			p.leavePause()
		}
	case p.seen.Spec.WaitsForApproval(n):
		p.waitForEvent("Rollout is in step(%d/%d), and you need manually confirm to enter the next step", n, total)
	case p.now.Before(due):
		p.waitUntil(due, "Rollout is in step(%d/%d), and wait duration(%d seconds) to enter the next step", n, total, int(step.Pause.Seconds()))
	default:
		p.enterState(rollout.StateReady, "PauseOver", fmt.Sprintf("the pause of step %d is over", n), "")
	}
	if p.waiting {
		p.wakeAtRenewal()
	}
}

// stateSince returns the time of the last change of state; a status without it starts over.
func (p *planner) stateSince() time.Time {
	if p.m.Since == nil {
		since := microTime(p.now)
		p.m.Since = &since
	}
	return p.m.Since.Time
}

// planReady leaves the step, unless its pods or routes have changed since the approval.
func (p *planner) planReady() {
	if !p.ensureStep() || !p.permitted(p.m.Step+1) {
		return
	}
	if int(p.m.Step) == len(p.seen.Spec.Steps) {
		p.enterState(rollout.StateCompleted, "StepsDone", "all steps are done", "")
		return
	}
	p.goToStep(p.m.Step + 1)
	p.commitFirst = true // to plan the step before again would revert the actions of a step with less traffic
	p.enterState(rollout.StateBeforeUpgrade, "StepStarted", fmt.Sprintf("step %d begins", p.m.Step), "")
}

// ensureStep reports whether pods, Services and routes are as the step wants them, and repairs the others.
func (p *planner) ensureStep() bool {
	return p.stableCapacityReady() && p.ensurePinned() && p.ensurePods() && p.ensureCanaryService() && p.ensureReached() && p.ensureRoutes() && p.ensureTrafficRouting() && p.stableScaledDown()
}

// ensurePods reports whether the new version has the ready pods of the step.
func (p *planner) ensurePods() bool {
	switch {
	case p.m.RollbackReplicas > 0 && p.seen.Workload.DesiredReplicas > 0:
		return p.ensureRolledBack()
	case p.desiredNewPods() == 0 && p.inPlace() && !p.routesRestored():
		return false
	case p.desiredNewPods() == 0 && !p.surgeRemoved():
		return false
	case p.desiredNewPods() == 0:
		p.waitForEvent("waiting for the workload to have replicas: it is scaled to 0, so there is nothing to release")
		return false
	case p.isBlueGreen():
		return p.ensureBlueGreen()
	case !p.ensureLastKept():
		return false
	case p.inPlace():
		return p.ensureReplaced()
	}
	return p.ensureCanary()
}

// ensureCanary reports whether the canary has the ready pods of the step. It never scales down: a jump to an earlier step moves only traffic. If the
// canary is missing or belongs to another release, its traffic goes before the executor creates it again.
func (p *planner) ensureCanary() bool {
	c, want := p.seen.Canary, p.desiredNewPods()
	name := p.seen.Spec.Workload.Name + api.SuffixCanary
	switch {
	case p.canaryLost() && !p.routesRestored():
		return false
	case c == nil:
		p.addActions(rollout.CreateCanary{Name: name, Replicas: want, Epoch: p.m.Epoch, Revision: p.canaryID()})
		return false
	case !c.Ours:
		p.holdFor(p.foreignObject("Deployment", name))
		return false
	case c.Deleting:
		p.waitForEvent("waiting for an older canary Deployment %s to be deleted", name)
		return false
	case p.canaryLost():
		if p.routesCleared() && p.graceOver() {
			p.deleteCanary()
		}
		return false
	case c.Replicas < want:
		p.addActions(rollout.ScaleCanary{Name: name, Replicas: want})
		return false
	}
	allowed := p.seen.Spec.FailureThreshold.Of(c.Updated)
	if !c.Observed || c.Updated < want || c.Available+allowed < want || want > 0 && c.Available == 0 {
		if !p.podsLabelled() {
			return false
		}
		p.lacks = fmt.Sprintf("not all of its %d canary pods are available", want)
		p.waitForEvent("Rollout is in step(%d/%d), and upgrade workload to new version: %d of %d canary pods are available",
			p.m.Step, len(p.seen.Spec.Steps), c.Available, want)
		return false
	}
	return p.podsLabelled()
}

// preflightPassed checks before the first pod whether the executor can route every step.
func (p *planner) preflightPassed() bool {
	if !p.updateStrategyFits() || !p.trafficRoutingThere() {
		return false
	}
	for routing, backend := range p.serviceBackends() {
		if backend.StableService == nil {
			p.holdFor(p.missingService(routing.Service))
			return false
		}
		if canary := backend.CanaryService; routing.SeparateService() && canary != nil && !canary.Ours {
			p.holdFor(p.foreignObject("Service", routing.CanaryService))
			return false
		}
	}
	for _, route := range p.seen.Routes {
		if problem := p.routeProblem(route); problem != nil {
			p.holdFor(*problem)
			return false
		}
		for n := range p.seen.Spec.LastStep() {
			step, _ := p.seen.Spec.Step(n + 1)
			if _, rendered := route.Steps[n+1]; step.RoutesTraffic() && !rendered {
				p.waitForEvent("waiting for the routes of step %d to be rendered", n+1)
				return false
			}
		}
	}
	return true
}
