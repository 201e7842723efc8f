package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Plan decides the next actions for one Rollout. It is level-triggered: for the same observed state it returns the same decision. After a crash
// between two decisions, the next call with the observed state continues the release.
func Plan(seen rollout.Seen, now time.Time) rollout.Decision {
	p := newPlanner(seen, now)
	p.readPermit()
	p.skipAnalyses()
	p.noteVersions()
	p.noteDelivery()
	p.readCommands()
	p.runStateMachine()
	p.updateStepSince()
	p.watchHealth()
	p.projectStatus()
	p.keepStepOfOldPlan()
	p.throttleStatus()
	return p.makeDecision()
}

// runStateMachine makes transitions until the planner has actions or waits. It never makes more transitions than the outbox holds, because the
// executor would never publish the others. The next run makes the rest at once.
func (p *planner) runStateMachine() {
	var begun int64
	if p.seen.Status.Sluice != nil {
		begun = p.seen.Status.Sluice.TransitionSeq
	}
	for p.m.TransitionSeq-begun < api.MaxTransitions-maxRemarks {
		before := p.m.TransitionSeq
		p.transitionOnce()
		if p.m.TransitionSeq == before || len(p.actions) > 0 || p.waiting {
			return
		}
	}
	p.wake = p.now
}

// planner is one call of Plan: the observed state, and the status and the actions so far.
type planner struct {
	seen   rollout.Seen
	now    time.Time
	status api.RolloutStatus
	m      *api.SluiceStatus
	c      *api.CommonStatus

	actions []rollout.Action
	wake    time.Time
	// show is the time of a later write of progress that this run does not write.
	show    time.Time
	waiting bool
	held    *rollout.Problem
	// doing describes, for users, the event that the release waits for.
	doing string
	// lacks describes the same for a step without numbers of pods; "" if doing has no such numbers.
	lacks      string
	kubeEvents []rollout.KubeEvent
	// refused says why the fleet does not let the release go on; nil if it does.
	refused *refusal
	// commitFirst: the executor must commit the status before the actions, because after the actions the planner would not make the same decision
	// again.
	commitFirst bool
}

func newPlanner(seen rollout.Seen, now time.Time) *planner {
	p := &planner{seen: seen, now: now, status: *seen.Status.DeepCopy()}
	if p.status.Sluice == nil {
		p.status.Sluice = &api.SluiceStatus{State: string(rollout.StateIdle)}
	}
	p.m, p.c = p.status.Sluice, strategyStatus(&p.status, seen.Spec.Style)
	if steps := int32(len(seen.Spec.Steps)); p.currentState().Releasing() && steps > 0 {
		p.m.Step = min(max(p.m.Step, 1), steps)
	}
	return p
}

func (p *planner) currentState() rollout.State { return rollout.State(p.m.State) }

// transitionOnce makes at most one transition, or adds actions, or waits.
func (p *planner) transitionOnce() {
	if blind := p.unknownProblem(); blind != nil {
		if blind.FromApply || !p.adoptDespiteProblem() {
			p.holdBlocked(*blind)
		}
		return
	}
	if len(p.seen.Spec.Steps) == 0 {
		p.holdBlocked(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: fmt.Sprintf(
			"The Rollout has no steps; give spec.strategy at least one: kubectl edit rollout %s -n %s", p.seen.Name, p.seen.Namespace)})
		return
	}
	if p.restoreAbortedState() || p.followFleet() {
		return
	}
	if p.seen.Deleting && p.currentState() != rollout.StateTerminated && !p.finalisingFor(api.FinaliseDeleting) && !p.returning() {
		aborted := p.currentState() == rollout.StateAborted
		if aborted && (!p.templateRestored() || p.workloadGone() && p.endInterruptedRelease()) || p.currentState().Releasing() && p.holdKeepPaused() {
			return
		}
		if p.currentState().Releasing() {
			p.startFinalising(api.FinaliseDeleting, "the Rollout is being deleted")
			return
		}
		p.enterState(rollout.StateTerminated, "Deleted", "Rollout is in terminating", "")
		return
	}
	if !p.seen.Deleting && !p.seen.Finalizer {
		p.addActions(rollout.AddFinalizer{})
		return
	}
	switch state := p.currentState(); {
	case state == rollout.StateIdle:
		p.planIdle()
	case state == rollout.StateDisabled:
		p.planDisabled()
	case state == rollout.StateTerminated:
		p.planTerminated()
	case state == rollout.StateFinalising:
		p.planFinalising()
	case state == rollout.StateAborted:
		p.planAborted()
	case state == rollout.StateInitializing:
		p.planInitializing()
	case state.InStep():
		p.planInStep()
	default:
		p.holdFor(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: fmt.Sprintf(
			"status.sluice.state %q is not known to this version of Sluice; run the version that wrote it, or a newer one", p.m.State)})
	}
}

// enterState makes a transition and records it in the outbox.
func (p *planner) enterState(state rollout.State, reason, message, actor string) {
	m := p.m
	p.noteFailure(state, reason)
	m.TransitionSeq++
	at, from := metav1.NewMicroTime(p.now.Truncate(time.Microsecond)), m.State
	m.State, m.Since = string(state), &at
	m.Traffic = p.newVersionTraffic()
	m.Transitions = append(m.Transitions, api.Transition{
		Seq: m.TransitionSeq, Time: at, From: from, To: m.State, Step: m.Step, Traffic: m.Traffic, Reason: reason, Message: message, Actor: actor,
	})
	p.trimOutbox()
	second := metav1.NewTime(p.now.Truncate(time.Second))
	p.c.LastUpdateTime = &second
}

func (p *planner) addActions(actions ...rollout.Action) { p.actions = append(p.actions, actions...) }

// waitForEvent stops the state machine until an event comes.
func (p *planner) waitForEvent(format string, args ...any) {
	p.waiting, p.doing = true, fmt.Sprintf(format, args...)
}

// waitUntil stops the state machine until an event comes or the time is reached.
func (p *planner) waitUntil(t time.Time, format string, args ...any) {
	p.wakeAt(t)
	p.waitForEvent(format, args...)
}

// wakeAt makes the executor plan the release again at a time, or earlier if an earlier time is set.
func (p *planner) wakeAt(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
}

// holdFor stalls the state machine until a person has fixed the problem.
func (p *planner) holdFor(problem rollout.Problem) {
	p.waiting, p.held = true, &problem
}

// makeDecision collects the results of the call. Actions that raise exposure wait for the commit of a status that intends them, unless the committed
// status intends them already.
func (p *planner) makeDecision() rollout.Decision {
	d := rollout.Decision{Status: p.status, Report: p.fleetReport(), Actions: p.actions, WakeAt: p.wake, KubeEvents: p.kubeEvents, CommitFirst: p.commitFirst}
	if !p.show.IsZero() && (d.WakeAt.IsZero() || p.show.Before(d.WakeAt)) {
		d.WakeAt = p.show
	}
	for _, a := range p.actions {
		d.CommitFirst = d.CommitFirst || a.RaisesExposure() && !p.intentCommitted(a)
	}
	return d
}
