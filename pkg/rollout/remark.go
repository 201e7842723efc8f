package rollout

import (
	"fmt"
	"iter"

	"sluice.dev/sluice/pkg/api"
)

// What the outbox tells beside changes of state. One of these words stands where a transition has a state, and the machine
// stays in the other one: a hold goes from the state to StateHeld when it begins, and back when it ends.
const (
	StateHeld            State = "Held"
	StateTrafficRestored State = "TrafficRestored"
)

// Remark reports whether the state is none of the machine's.
func (s State) Remark() bool { return s == StateHeld || s == StateTrafficRestored }

// maxRemarks is how many remarks come on top of a walk: the one about a hold, when the walk is over.
const maxRemarks = 1

// remark tells of something that is no change of state. It takes a number like one, so that its event has an id of its own.
func (p *planner) remark(from, to State, reason, message string) {
	m := p.m
	m.TransitionSeq++
	m.Traffic = p.traffic()
	m.Transitions = append(m.Transitions, api.Transition{
		Seq: m.TransitionSeq, Time: microTime(p.now), From: string(from), To: string(to), Step: m.Step, Traffic: m.Traffic, Reason: reason, Message: message,
	})
	p.trimOutbox()
}

// trimOutbox forgets the oldest transitions. They were published before anything was committed over them.
func (p *planner) trimOutbox() {
	if extra := len(p.m.Transitions) - api.MaxTransitions; extra > 0 {
		p.m.Transitions = p.m.Transitions[extra:]
	}
}

// remarkHold tells that a hold began, became another one, or ended.
func (p *planner) remarkHold(before *api.Condition, held *Problem) {
	switch {
	case held != nil && (before == nil || before.Reason != held.Reason || before.Message != held.Message):
		p.remark(p.state(), StateHeld, string(held.Reason), held.Message)
	case held == nil && before != nil:
		p.remark(StateHeld, p.state(), string(before.Reason), fmt.Sprintf("%s is resolved", before.Reason))
	}
}

// newest is the last change, nil where the outbox has none.
func (p *planner) newest() (last *api.Transition) {
	p.changes()(func(t *api.Transition) bool { last = t; return false })
	return last
}

// changes are the transitions of the outbox without the remarks, newest first.
func (p *planner) changes() iter.Seq[*api.Transition] {
	return func(yield func(*api.Transition) bool) {
		for i := len(p.m.Transitions) - 1; i >= 0; i-- {
			if t := &p.m.Transitions[i]; !State(t.From).Remark() && !State(t.To).Remark() && !yield(t) {
				return
			}
		}
	}
}
