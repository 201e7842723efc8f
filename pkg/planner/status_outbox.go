package planner

import (
	"fmt"
	"iter"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// maxRemarks is the number of remarks in addition to the transitions of one call: the remark about a hold at its end.
const maxRemarks = 1

// addRemark reports an event that is not a change of state. It takes a number like a transition, so its event has an id of its own.
func (p *planner) addRemark(from, to rollout.State, reason, message string) {
	m := p.m
	m.TransitionSeq++
	m.Traffic = p.newVersionTraffic()
	m.Transitions = append(m.Transitions, api.Transition{
		Seq: m.TransitionSeq, Time: microTime(p.now), From: string(from), To: string(to), Step: m.Step, Traffic: m.Traffic, Reason: reason, Message: message,
	})
	p.trimOutbox()
}

// trimOutbox drops the oldest transitions. The executor published them before it committed later ones.
func (p *planner) trimOutbox() {
	if extra := len(p.m.Transitions) - api.MaxTransitions; extra > 0 {
		p.m.Transitions = p.m.Transitions[extra:]
	}
}

// remarkHold reports that a hold began, changed or ended.
func (p *planner) remarkHold(before *api.Condition, held *rollout.Problem) {
	switch {
	case held != nil && (before == nil || before.Reason != held.Reason || before.Message != held.Message):
		p.addRemark(p.currentState(), rollout.StateStalled, string(held.Reason), held.Message)
	case held == nil && before != nil:
		p.addRemark(rollout.StateStalled, p.currentState(), string(before.Reason), fmt.Sprintf("%s is resolved", before.Reason))
	}
}

// newestTransition returns the last change of state, or nil if the outbox has none.
func (p *planner) newestTransition() (last *api.Transition) {
	p.stateTransitions()(func(t *api.Transition) bool { last = t; return false })
	return last
}

// stateTransitions iterates over the transitions in the outbox without the remarks, newest first.
func (p *planner) stateTransitions() iter.Seq[*api.Transition] {
	return func(yield func(*api.Transition) bool) {
		for i := len(p.m.Transitions) - 1; i >= 0; i-- {
			if t := &p.m.Transitions[i]; !rollout.State(t.From).IsRemark() && !rollout.State(t.To).IsRemark() && !yield(t) {
				return
			}
		}
	}
}
