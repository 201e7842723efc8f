package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Plan decides what comes next for one Rollout. It is level-triggered: called again with the same view it decides the same, and
// any crash between two of its decisions is healed by calling it with what is then seen.
func Plan(seen rollout.Seen, now time.Time) rollout.Decision {
	p := newPlanner(seen, now)
	p.receive()
	p.walk()
	p.keepTime()
	p.project()
	p.calm()
	return p.decision()
}

// walk turns until something must be done or waited for. It never makes more transitions than the outbox holds: the ones that
// fall off would never be published. What is left of a longer walk follows at once.
func (p *planner) walk() {
	var begun int64
	if p.seen.Status.Sluice != nil {
		begun = p.seen.Status.Sluice.TransitionSeq
	}
	for p.m.TransitionSeq-begun < api.MaxTransitions-maxRemarks {
		before := p.m.TransitionSeq
		p.turn()
		if p.m.TransitionSeq == before || len(p.actions) > 0 || p.waiting {
			return
		}
	}
	p.wake = p.now
}

// planner is one call of Plan: the world as seen, and the status and the actions so far.
type planner struct {
	seen   rollout.Seen
	now    time.Time
	status api.RolloutStatus
	m      *api.SluiceStatus
	c      *api.CommonStatus

	actions []rollout.Action
	wake    time.Time
	// show is when progress is written that is not now.
	show    time.Time
	waiting bool
	held    *rollout.Problem
	// doing says what the release waits for, as users read it.
	doing string
	// lacks says the same of a step without counting what comes one by one; "" where doing does not count either.
	lacks string
	notes []rollout.Note
	// commitFirst: the status is to be committed before the actions, for who comes after these does not decide the same again.
	commitFirst bool
}

func newPlanner(seen rollout.Seen, now time.Time) *planner {
	p := &planner{seen: seen, now: now, status: *seen.Status.DeepCopy()}
	if p.status.Sluice == nil {
		p.status.Sluice = &api.SluiceStatus{State: string(rollout.StateIdle)}
	}
	p.m, p.c = p.status.Sluice, shown(&p.status, seen.Spec.Style)
	if steps := int32(len(seen.Spec.Steps)); p.state().Releasing() && steps > 0 {
		p.m.Step = min(max(p.m.Step, 1), steps)
	}
	return p
}

func (p *planner) state() rollout.State { return rollout.State(p.m.State) }

// turn makes at most one transition, or asks for actions, or waits.
func (p *planner) turn() {
	if blind := p.blind(); blind != nil {
		if blind.Acting || !p.adopting() {
			p.blocked(*blind)
		}
		return
	}
	if len(p.seen.Spec.Steps) == 0 {
		p.blocked(rollout.Problem{Reason: rollout.HoldInvalidSpec, Message: fmt.Sprintf(
			"The Rollout has no steps; give spec.strategy at least one: kubectl edit rollout %s -n %s", p.seen.Name, p.seen.Namespace)})
		return
	}
	if p.abortedStill() {
		return
	}
	if p.seen.Deleting && p.state() != rollout.StateTerminated && !p.finalisingFor(api.FinaliseDeleting) {
		aborted := p.state() == rollout.StateAborted
		if aborted && (!p.templateRestored() || p.workloadGone() && p.interrupted()) || p.state().Releasing() && p.leavesBoth() {
			return
		}
		if p.state().Releasing() {
			p.finalise(api.FinaliseDeleting, "the Rollout is being deleted")
			return
		}
		p.to(rollout.StateTerminated, "Deleted", "Rollout is in terminating", "")
		return
	}
	if !p.seen.Deleting && !p.seen.Finalizer {
		p.act(rollout.AddFinalizer{})
		return
	}
	switch state := p.state(); {
	case state == rollout.StateIdle:
		p.idle()
	case state == rollout.StateDisabled:
		p.disabled()
	case state == rollout.StateTerminated:
		p.terminated()
	case state == rollout.StateFinalising:
		p.finalising()
	case state == rollout.StateAborted:
		p.aborted()
	case state == rollout.StateInitializing:
		p.initializing()
	case state.InStep():
		p.inRolling()
	default:
		p.holdFor(rollout.Problem{Reason: rollout.HoldInvalidSpec, Message: fmt.Sprintf(
			"status.sluice.state %q is not known to this version of Sluice; run the version that wrote it, or a newer one", p.m.State)})
	}
}

// to makes a transition and records it in the outbox.
func (p *planner) to(state rollout.State, reason, message, actor string) {
	m := p.m
	m.TransitionSeq++
	at, from := metav1.NewMicroTime(p.now.Truncate(time.Microsecond)), m.State
	m.State, m.Since = string(state), &at
	m.Traffic = p.traffic()
	m.Transitions = append(m.Transitions, api.Transition{
		Seq: m.TransitionSeq, Time: at, From: from, To: m.State, Step: m.Step, Traffic: m.Traffic, Reason: reason, Message: message, Actor: actor,
	})
	p.trimOutbox()
	second := metav1.NewTime(p.now.Truncate(time.Second))
	p.c.LastUpdateTime = &second
}

func (p *planner) act(actions ...rollout.Action) { p.actions = append(p.actions, actions...) }

// wait stops the walk here until an event comes.
func (p *planner) wait(format string, args ...any) {
	p.waiting, p.doing = true, fmt.Sprintf(format, args...)
}

// waitUntil stops the walk here until an event comes or the time is reached.
func (p *planner) waitUntil(t time.Time, format string, args ...any) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
	p.wait(format, args...)
}

// holdFor stops the walk here until a person has changed something.
func (p *planner) holdFor(problem rollout.Problem) {
	p.waiting, p.held = true, &problem
}

// decision collects what was planned. Raising actions wait for the commit of the status that intends them, unless one that does was
// committed before.
func (p *planner) decision() rollout.Decision {
	d := rollout.Decision{Status: p.status, Actions: p.actions, WakeAt: p.wake, Notes: p.notes, CommitFirst: p.commitFirst}
	if !p.show.IsZero() && (d.WakeAt.IsZero() || p.show.Before(d.WakeAt)) {
		d.WakeAt = p.show
	}
	for _, a := range p.actions {
		d.CommitFirst = d.CommitFirst || a.Raises() && !p.intended(a)
	}
	return d
}
