package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file follows what users write into the status: approvals by currentStepState, jumps by nextStepIndex, and status.command. EvaluateApproval
// judges the approvals that come as events.

// readCommands reads the commands that others write into canaryStatus: StepReady approves the pause that the machine is in, and
// nextStepIndex jumps. Any other difference is taken back.
func (p *planner) readCommands() {
	defer p.followCommand()
	steps := int32(len(p.seen.Spec.Steps))
	inStep := p.currentState().InStep() && !p.seen.Deleting
	if next := p.c.NextStepIndex; next != p.nextIndex() && (!inStep || next < 1 || next > steps) {
		if p.m.Epoch > 0 && p.currentState() != rollout.StateIdle && p.m.PlanHash == p.seen.Spec.Hash {
			p.noteRevertedEdit(fmt.Sprintf("nextStepIndex %d was taken back: set it to a step from 1 to %d while a release is in a step", next, steps))
		}
		p.c.NextStepIndex = p.nextIndex()
	}
	p.reportStatusEdits()
	if p.c.CurrentStepState == p.stepState() || p.m.Epoch == 0 {
		return
	}
	if p.c.CurrentStepState == api.StepReady && p.currentState().TakesApproval() {
		if g, ok := p.worstGate(); ok && g.run.Phase == api.AnalysisFailed && p.c.CurrentStepIndex == p.m.Step {
			p.noteRevertedEdit(fmt.Sprintf("the approval of step %d was taken back: %s failed; to go on nevertheless: sluice approve %s -n %s --force",
				p.m.Step, g, p.seen.Name, p.seen.Namespace))
			return
		}
		if p.c.CurrentStepIndex == p.m.Step {
			p.approveFromStatus()
			return
		}
		p.noteRevertedEdit(fmt.Sprintf("the approval of step %d was taken back: the release is in step %d", p.c.CurrentStepIndex, p.m.Step))
		return
	}
	p.noteRevertedEdit(fmt.Sprintf("currentStepState %s was taken back: approve only while it is StepPaused", p.c.CurrentStepState))
}

// reportStatusEdits reports edits of the fields of canaryStatus that only show the state. A user who may approve may write them; the planner decides
// nothing from them.
func (p *planner) reportStatusEdits() {
	if p.seen.Status.Sluice == nil || p.seen.Status.Common() == nil {
		return
	}
	shown, revision := *p.c, *rollout.StatusRevision(&p.status)
	p.projectRevisions()
	in, names := strategyStatusNames(&p.status)
	for _, field := range []struct{ name, foreign, own string }{
		{"stableRevision", shown.StableRevision, p.c.StableRevision}, {names, revision, *rollout.StatusRevision(&p.status)},
		{"rolloutHash", shown.RolloutHash, p.c.RolloutHash}, {"observedRolloutID", shown.ObservedRolloutID, p.c.ObservedRolloutID},
	} {
		if field.foreign != field.own && field.foreign != p.m.CanaryRevision { // earlier versions of Sluice showed that digest
			p.noteRevertedEdit(fmt.Sprintf("%s.%s %q was taken back: it only shows what Sluice does; change the workload instead", in, field.name, field.foreign))
		}
	}
}

func (p *planner) noteRevertedEdit(message string) {
	p.kubeEvents = append(p.kubeEvents, rollout.KubeEvent{Warning: true, Reason: "StatusEditReverted", Message: message})
}

// followCommand follows a command, or says why not. Either way it is taken away.
func (p *planner) followCommand() {
	c := p.status.Command
	if c == nil {
		return
	}
	p.status.Command = nil
	state, free := p.currentState(), !p.seen.Deleting && !p.seen.Spec.Disabled
	end := int32(len(p.seen.Spec.Steps)) + 1
	switch {
	case c.Epoch != p.m.Epoch:
		p.refuseCommand(*c, "it is about another release than the one under way")
	case c.Action == api.CommandAbort && free && (state.InStep() || state == rollout.StateInitializing):
		p.abortRelease(api.FinaliseAborted, "Aborted", withComment(fmt.Sprintf("step %d of %d: aborted by %s", p.m.Step, len(p.seen.Spec.Steps), c.Actor), c.Comment), c.Actor)
	case c.Action == api.CommandAbort && p.finalisingFor(api.FinaliseSuccess):
		p.noteRevertedEdit(fmt.Sprintf("the command %s by %s was not followed: the version has all its approvals, or was promoted, and is rolled out; to go back, roll the workload back: sluice undo %s -n %s",
			c.Action, c.Actor, p.seen.Name, p.seen.Namespace))
	case c.Action == api.CommandRetry && state == rollout.StateAborted && !p.workloadGone() && p.rolledBack():
		p.refuseCommand(*c, "the workload has its stable version back; release the version once more by changing its template")
	case c.Action == api.CommandRetry && free && state == rollout.StateAborted && p.withdrawn():
		p.refuseCommand(*c, "the fleet has withdrawn this version")
	case c.Action == api.CommandRetry && free && state == rollout.StateAborted:
		p.startFinalising(api.FinaliseRetry, withComment("The release is retried, as asked by "+c.Actor, c.Comment))
	case c.Action == api.CommandPromote && free && state.InStep() && p.fleetRefusal(end) != nil:
		p.refuseCommand(*c, p.fleetRefusal(end).message)
	case c.Action == api.CommandPromote && free && state.InStep() && !p.permitRecorded():
		p.status.Command = c // it is followed once the permit is recorded
	case c.Action == api.CommandOverride && p.governed() && p.seen.Workload != nil && p.blockedKey(p.templateVersion()) != "":
		p.refuseCommand(*c, "the fleet has withdrawn this version")
	case c.Action == api.CommandOverride && free && p.governed() && (state.InStep() || state == rollout.StateInitializing):
		p.overrideFleet(*c)
	case c.Action == api.CommandPromote && free && state.InStep():
		p.promoteFully(*c)
	case c.Action == api.CommandApprove && free && c.PauseSeq == p.m.PauseSeq && state.TakesForcedApproval():
		p.recordDecision(api.Approval{Decision: api.DecisionApprove, Actor: c.Actor, Comment: c.Comment, Forced: true})
		p.leavePause()
		p.status.Analysis = nil // an overruled failure does not stop the next steps
	default:
		p.refuseCommand(*c, fmt.Sprintf("it does not fit the state %s", state))
	}
}

func (p *planner) refuseCommand(c api.Command, why string) {
	p.noteRevertedEdit(fmt.Sprintf("the command %s by %s was not followed: %s; look at the release, and give it again if you mean it", c.Action, c.Actor, why))
}

func withComment(what, comment string) string {
	if comment == "" {
		return what
	}
	return what + " (" + shortComment(comment) + ")"
}

// promoteFully ends the release as a success and skips the remaining steps.
func (p *planner) promoteFully(c api.Command) {
	p.endRuns()
	p.startFinalising(api.FinaliseSuccess, withComment("the steps that were left were skipped by "+c.Actor, c.Comment))
}
