package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// judged evaluates an event about the release in the status. The evaluation may use a slightly old observation of the workload; later changes must
// not matter.
func (w *world) judged(change func(*ApprovalRequest)) ApprovalResult {
	seen := w.see()
	m := machine(&w.status)
	if seen.Workload != nil && string(m.WorkloadUID) == seen.Workload.UID {
		seen.Workload.Revision = m.CanaryRevision
	}
	p := ApprovalRequest{
		Decision: api.DecisionApprove, Revision: m.CanaryRevision, Principal: "ci", Source: "/ci", ID: fmt.Sprint(len(w.status.Approvals) + 1), Arrived: w.time(),
	}
	if change != nil {
		change(&p)
	}
	return EvaluateApproval(seen, p, w.time())
}

// send carries out the executor's part after an event: it writes the decision, if there is one to write.
func (w *world) send(d api.Decision) {
	j := w.judged(func(p *ApprovalRequest) { p.Decision = d })
	if j.Status == nil {
		return
	}
	if d == api.DecisionApprove {
		w.allow(w.step() + 1)
	}
	w.model.check.accepted(w, j)
	w.status = *j.Status
	w.touched(onRollout)
}

// decided returns the decision about the current pause, "" without one.
func (w *world) decided() api.Decision { return decisionOf(&w.status) }

func decisionOf(s *api.RolloutStatus) api.Decision {
	if s.Sluice == nil {
		return ""
	}
	p := planner{m: s.Sluice, status: *s}
	if a := p.pauseDecision(); a != nil {
		return a.Decision
	}
	return ""
}

// senders lists the events that would count now.
func (w *world) senders() []move {
	var moves []move
	if w.state() != rollout.StatePaused {
		return nil
	}
	for _, d := range []api.Decision{api.DecisionApprove, api.DecisionReject} {
		if w.judged(nil).Refusal == "" {
			moves = append(moves, move{"an event: " + string(d), func(w *world) { w.send(d) }})
		}
	}
	return moves
}

// accepted checks a decision before its write.
func (c *checks) accepted(w *world, j ApprovalResult) {
	before, after := machine(&w.status), machine(j.Status)
	c.that(w.state() == rollout.StatePaused && w.decided() == "", "ApprovalCountsForOnePause", "a decision was accepted in %s, where one had been %q", w.state(), w.decided())
	c.that(j.Pause == rollout.Pause{UID: "u", Epoch: before.Epoch, PauseSeq: before.PauseSeq, Step: before.Step}, "ApprovalCountsForOnePause", "it counts for %+v", j.Pause)
	after.Since = before.Since
	c.that(fmt.Sprint(before) == fmt.Sprint(after), "ApprovalCountsForOnePause", "accepting it has moved the machine")
}

// events checks events that must never count in any state of the release: replays, early events, wrong events.
func (c *checks) events(w *world) {
	m := machine(&w.status)
	for name, change := range map[string]func(*ApprovalRequest){
		"from before the pause": func(p *ApprovalRequest) { p.Arrived = w.status.Sluice.Since.Add(-1) },
		"made long ago":         func(p *ApprovalRequest) { p.Made = w.status.Sluice.Since.Add(-clockSkew - 1) },
		"about another step":    func(p *ApprovalRequest) { p.Step = m.Step + 1 },
		"about another release": func(p *ApprovalRequest) { p.Revision = "v9" },
		"taken for the pause before": func(p *ApprovalRequest) {
			p.Bound = &rollout.Pause{UID: "u", Epoch: m.Epoch, PauseSeq: m.PauseSeq - 1, Step: m.Step}
		},
		"taken for a pause of the release before": func(p *ApprovalRequest) {
			p.Bound = &rollout.Pause{UID: "u", Epoch: m.Epoch - 1, PauseSeq: m.PauseSeq, Step: m.Step}
		},
	} {
		if w.state() == rollout.StatePaused {
			c.that(w.judged(change).Refusal != "", "ApprovalCountsForOnePause", "an event %s was accepted", name)
		}
	}
	if w.state() == rollout.StatePaused && w.decided() != "" {
		again := w.judged(func(p *ApprovalRequest) { p.Arrived = w.time().Add(time.Hour) })
		c.that(again.Refusal != "", "ApprovalCountsForOnePause", "a second decision about one pause is answered by %+v", again)
	}
	for _, a := range w.status.Approvals {
		if a.EventID == "" {
			continue
		}
		again := w.judged(func(p *ApprovalRequest) { p.ID = a.EventID })
		c.that(again.Refusal == "" && again.Status == nil && again.Pause.PauseSeq == a.PauseSeq && again.Pause.Epoch == a.Epoch,
			"ReplayChangesNothing", "the event of pause %d, sent again, is answered by %+v", a.PauseSeq, again)
		c.that(w.judged(func(p *ApprovalRequest) { p.ID, p.Principal = a.EventID, "another" }).Status == nil, "ReplayChangesNothing", "it counts when another one sends it")
	}
}

// followed checks the end of a pause: an approval of this pause ended it, or its time is over.
func (c *checks) followed(before api.SluiceStatus, d rollout.Decision) {
	after := machine(&d.Status)
	made := int(after.TransitionSeq - before.TransitionSeq)
	if before.State != string(rollout.StatePaused) || made < 1 || made > len(after.Transitions) {
		return
	}
	first := after.Transitions[len(after.Transitions)-made]
	if first.To != string(rollout.StateReady) {
		return
	}
	s := api.RolloutStatus{Sluice: &before, Approvals: d.Status.Approvals}
	decision := decisionOf(&s)
	c.that(first.Reason != "Approved" || decision == api.DecisionApprove, "ApprovalCountsForOnePause", "a pause was left as approved, and the decision is %q", decision)
	c.that(decision != api.DecisionReject, "RejectionHolds", "a rejected pause was left: %s", first.Message)
}
