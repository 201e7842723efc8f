package planner

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// pauseDecision returns the decision about the current pause, or nil. Only a user with kubectl may decide twice; the latest decision counts.
func (p *planner) pauseDecision() *api.Approval {
	return rollout.LastApproval(p.status.Approvals, func(a api.Approval) bool { return a.Epoch == p.m.Epoch && a.PauseSeq == p.m.PauseSeq })
}

// recordDecision writes a decision about the current pause into the status.
func (p *planner) recordDecision(a api.Approval) api.Approval {
	m := p.m
	a.Step, a.Epoch, a.PauseSeq, a.Revision, a.RolloutID, a.Time = m.Step, m.Epoch, m.PauseSeq, m.CanaryRevision, m.RolloutID, microTime(p.now)
	p.status.Approvals = append(p.status.Approvals, a)
	if extra := len(p.status.Approvals) - api.MaxApprovals; extra > 0 {
		p.status.Approvals = p.status.Approvals[extra:]
	}
	return a
}

// approveFromStatus records a StepReady that a user wrote into canaryStatus as a decision. A user with that permission may also overrule a rejection.
// If the pause is approved already, it adds nothing.
func (p *planner) approveFromStatus() {
	if a := p.pauseDecision(); a == nil || a.Decision != api.DecisionApprove {
		p.recordDecision(api.Approval{Decision: api.DecisionApprove, Actor: p.seen.Editor})
	}
	p.leavePause()
}

// leavePause leaves the pause with the decision about it.
func (p *planner) leavePause() {
	a := p.pauseDecision()
	p.enterState(rollout.StateReady, "Approved", decisionMessage(*a), a.Actor)
}

// holdRejected stalls the release in its step. An interruption, a jump, or a user with kubectl ends the hold. To let a rejection end the release,
// change this function.
func (p *planner) holdRejected(a api.Approval) {
	p.holdFor(rollout.Problem{Reason: rollout.ReasonRejected, Message: fmt.Sprintf(
		"%s. To end the release, give the workload its old template again (apply the old manifest, or kubectl set image back); to go on nevertheless: sluice approve %s -n %s",
		decisionMessage(a), p.seen.Name, p.seen.Namespace)})
}

// decisionMessage describes a decision, and names the actor if an event carried it.
func decisionMessage(a api.Approval) string {
	verb := "approved"
	if a.Forced {
		verb = "approved against its metrics"
	}
	if a.Decision == api.DecisionReject {
		verb = "rejected"
	}
	message := fmt.Sprintf("step %d was %s", a.Step, verb)
	if a.EventID != "" || a.Forced || a.Actor == rollout.AnalysisActor {
		message += " by " + a.Actor
	}
	if a.Comment != "" {
		message += " (" + shortComment(a.Comment) + ")"
	}
	return message
}

// shortComment returns a comment on one line, short enough for several messages in the status.
func shortComment(comment string) string {
	const most = 200
	comment = strings.Join(strings.Fields(comment), " ")
	if len(comment) > most {
		comment = strings.ToValidUTF8(comment[:most], "") + "..."
	}
	return comment
}
