package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// ApprovalRequest is what a client wants decided about a release. Zero values of Step, RolloutID, Image and Revision are not given.
type ApprovalRequest struct {
	Decision api.Decision
	Step     int32
	// RolloutID, Image and Revision name the release; each one that is given must match.
	RolloutID, Image, Revision string
	Comment                    string
	// Traceparent is the W3C trace context that it came with, or empty.
	Traceparent string
	// Principal sent it; Source and ID tell it from all others.
	Principal, Source, ID string
	// Made is when the sender says that it was made, Arrived when it came in by our own clocks.
	Made, Arrived time.Time
	// Bound is the pause for which it was first judged to count; nil at first. It counts for no other one.
	Bound *rollout.Pause
}

// ApprovalResult is what comes of a proposal. Without a Refusal it is accepted.
type ApprovalResult struct {
	Refusal api.Refusal
	// Message is a sentence for the sender, with what to do next.
	Message string
	// Pause is the pause that it counts for, or what the release is in.
	Pause rollout.Pause
	// Revision and RolloutID identify that release.
	Revision, RolloutID string
	// At is when it was accepted.
	At time.Time
	// Status is the status to commit before the sender gets the answer that it was accepted. It is nil if the decision was refused, or accepted before.
	Status *api.RolloutStatus
}

const (
	// clockSkew is how far the clock of a sender may be off.
	clockSkew = 2 * time.Minute
	// maxAhead is how far in the future a decision may say that it was made; it could be replayed for that long.
	maxAhead = 5 * time.Minute
)

// EvaluateApproval decides about a proposal that came as an event. It is a pure function, and an accepted proposal that is judged again is accepted
// again without anything to write. It counts for the pause that was under way both when it arrived and when it is judged.
//
// Approvals that users write into the status do not come here: see readCommands and followCommand. A check for all approvals must stand there too.
func EvaluateApproval(seen rollout.Seen, p ApprovalRequest, now time.Time) ApprovalResult {
	j := &approvalEvaluation{planner: newPlanner(seen, now), request: p}
	out := j.evaluateChecks()
	if out.Pause == (rollout.Pause{}) {
		out.Pause = j.currentPause()
		out.Revision, out.RolloutID = j.m.CanaryRevision, j.m.RolloutID
	}
	return out
}

// approvalEvaluation is one call of [EvaluateApproval], on the planner's view of the world.
type approvalEvaluation struct {
	*planner
	request ApprovalRequest
}

func (j *approvalEvaluation) evaluateChecks() ApprovalResult {
	if j.request.Made.After(j.request.Arrived.Add(maxAhead)) {
		return refusedResult(api.RefusalMalformed, "The event says that it was made at %s, which is in the future; set the sender's clock, or leave the time out",
			formatTimestamp(j.request.Made))
	}
	for _, check := range []func() *ApprovalResult{j.alreadyAnswered, j.releaseInProgress, j.releaseMatches, j.pauseUnchanged, j.stepMatches, j.pauseUndecided, j.metricsNotFailed} {
		if found := check(); found != nil {
			return *found
		}
	}
	return j.acceptRequest()
}

// alreadyAnswered answers an event that has counted already as it was answered then.
func (j *approvalEvaluation) alreadyAnswered() *ApprovalResult {
	for _, a := range j.status.Approvals {
		switch {
		case j.request.ID == "" || a.EventID != j.request.ID || a.Source != j.request.Source:
		case a.Actor == j.request.Principal:
			return acceptedResult(j.seen.UID, a)
		default:
			return refusedCheck(api.RefusalAlreadyDecided, "The event of this source and id has counted already, when %s sent it; send a decision of your own with an id of its own", a.Actor)
		}
	}
	return nil
}

// releaseInProgress refuses where no release is under way that could go on.
func (j *approvalEvaluation) releaseInProgress() *ApprovalResult {
	state := j.currentState()
	if !state.Releasing() {
		return refusedCheck(api.RefusalNotInProgress, "No release is under way (%s), so there is nothing to decide; change the workload to begin one", cmp.Or(j.status.Phase, api.PhaseInitial))
	}
	if state == rollout.StateAborted {
		return refusedCheck(api.RefusalNotInProgress, "%s", j.abortMessage())
	}
	if state == rollout.StateFinalising || state == rollout.StateCompleted || j.seen.Deleting || j.seen.Spec.Disabled {
		return refusedCheck(api.RefusalNotInProgress, "The release is ending already and waits for no decision: %s", j.interruptionMessage())
	}
	if problem := j.unknownProblem(); problem != nil {
		return refusedCheck(api.RefusalNotPaused, "The release is held and cannot be looked at: %s Then decide again", rollout.EndSentence(problem.Message))
	}
	if j.workloadGone() {
		return refusedCheck(api.RefusalNotInProgress, "The workload of the release was deleted, so there is nothing to decide")
	}
	return nil
}

// releaseMatches refuses what names another release than the one under way.
func (j *approvalEvaluation) releaseMatches() *ApprovalResult {
	w, m := j.seen.Workload, j.m
	id := rollout.ReleaseID(w.RolloutID, *m)
	revisions := []string{m.CanaryRevision, m.CanaryHash, j.podTemplateHash()}
	switch {
	case w.Revision != m.CanaryRevision:
		return refusedCheck(api.RefusalWrongRelease, "The workload has got another template since this release began, so that it is ending; decide about the new one when it pauses")
	case j.request.RolloutID == "" && j.request.Image == "" && j.request.Revision == "":
		return refusedCheck(api.RefusalMalformed, "The event names no release; give at least one of rolloutID, image and revision")
	case j.request.RolloutID != "" && j.request.RolloutID != id:
		return refusedCheck(api.RefusalWrongRelease, "The rolloutID %q does not match the release under way, which has %q; to decide about that release, name its rolloutID", j.request.RolloutID, id)
	case j.request.Revision != "" && !slices.Contains(revisions, j.request.Revision):
		return refusedCheck(api.RefusalWrongRelease, "The revision %q does not match the release under way, which has %q; to decide about that release, name its revision", j.request.Revision, cmp.Or(m.CanaryHash, m.CanaryRevision))
	case j.request.Image != "" && !slices.ContainsFunc(w.Images, func(have string) bool { return rollout.SameImage(j.request.Image, have) }):
		return refusedCheck(api.RefusalWrongRelease, "The new version does not have the image %q, it has %q; name one exactly as the pod template does, or by its digest", j.request.Image, w.Images)
	}
	return nil
}

// pauseUnchanged refuses a request that was made for an earlier pause.
func (j *approvalEvaluation) pauseUnchanged() *ApprovalResult {
	b := j.request.Bound
	if b == nil || *b == j.currentPause() {
		return nil
	}
	if a := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == b.Epoch && a.PauseSeq == b.PauseSeq }); a != nil && b.UID == j.seen.UID {
		return alreadyDecided(*a)
	}
	return refusedCheck(api.RefusalExpired, "The pause of step %d that it was sent for is over; look at what runs now and send a new decision", b.Step)
}

// stepMatches refuses what names another step than the current one.
func (j *approvalEvaluation) stepMatches() *ApprovalResult {
	n := j.request.Step
	if n == 0 || n == j.m.Step {
		return nil
	}
	if a := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == j.m.Epoch && a.Step == n }); a != nil {
		return alreadyDecided(*a)
	}
	return refusedCheck(api.RefusalWrongStep, "It is about step %d, and the release is in step %d of %d; decide about that one if you mean it", n, j.m.Step, len(j.seen.Spec.Steps))
}

// pauseUndecided refuses a request if the pause has a decision, has not begun, or begins again.
func (j *approvalEvaluation) pauseUndecided() *ApprovalResult {
	m, state := j.m, j.currentState()
	earlier := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == m.Epoch })
	switch {
	case (state == rollout.StatePaused || state == rollout.StateReady) && j.pauseDecision() != nil:
		return alreadyDecided(*j.pauseDecision())
	case earlier != nil && !j.request.Arrived.After(earlier.Time.Time):
		// Several were sent at once: the one that came first has counted, and this one must not pass for the next step.
		return alreadyDecided(*earlier)
	case state == rollout.StateAnalysis && j.seen.Spec.StepAnalysis(m.Step) != nil:
		return refusedCheck(api.RefusalNotPaused, "Step %d of %d is being measured; wait for its metrics and send a new decision, or go on nevertheless: sluice approve %s -n %s --force",
			m.Step, len(j.seen.Spec.Steps), j.seen.Name, j.seen.Namespace)
	case !state.TakesApproval():
		return refusedCheck(api.RefusalNotPaused, "Step %d of %d is not paused yet (%s); wait for it to pause and send a new decision", m.Step, len(j.seen.Spec.Steps), state)
	case j.c.NextStepIndex != j.nextIndex() || m.PlanHash != j.seen.Spec.Hash:
		return refusedCheck(api.RefusalNotPaused, "The release has just been told to go to another step, or its steps were changed; wait for the next pause and send a new decision")
	case j.request.Arrived.Before(j.stateSince()):
		return refusedCheck(api.RefusalNotPaused, "It came in before step %d paused at %s; look at what runs now and send a new decision", m.Step, formatTimestamp(j.stateSince()))
	case !j.request.Made.IsZero() && j.request.Made.Before(j.stateSince().Add(-clockSkew)):
		return refusedCheck(api.RefusalExpired, "It was made at %s, before step %d paused at %s; look at what runs now and send a new decision", formatTimestamp(j.request.Made), m.Step, formatTimestamp(j.stateSince()))
	}
	return nil
}

// metricsNotFailed refuses to approve what metrics have failed. Only a person overrules them.
func (j *approvalEvaluation) metricsNotFailed() *ApprovalResult {
	g, ok := j.worstGate()
	if !ok || g.run.Phase != api.AnalysisFailed || j.request.Decision != api.DecisionApprove {
		return nil
	}
	return refusedCheck(api.RefusalAnalysisFailed, "%s failed: %s Roll the workload back, or go on nevertheless: sluice approve %s -n %s --force",
		rollout.CapitalizeFirst(g.String()), rollout.EndSentence(g.run.Message), j.seen.Name, j.seen.Namespace)
}

func (j *approvalEvaluation) currentPause() rollout.Pause { return rollout.NewPause(j.seen.UID, *j.m) }

// acceptRequest records the decision; the next plan follows it.
func (j *approvalEvaluation) acceptRequest() ApprovalResult {
	a := j.recordDecision(api.Approval{
		Decision: j.request.Decision, Actor: j.request.Principal, EventID: j.request.ID, Source: j.request.Source, Comment: j.request.Comment, Traceparent: j.request.Traceparent,
	})
	out := acceptedResult(j.seen.UID, a)
	out.Status = &j.status
	return *out
}

func acceptedResult(uid string, a api.Approval) *ApprovalResult {
	return &ApprovalResult{
		Message: decisionMessage(a), Pause: rollout.Pause{UID: uid, Epoch: a.Epoch, PauseSeq: a.PauseSeq, Step: a.Step},
		Revision: a.Revision, RolloutID: a.RolloutID, At: a.Time.Time,
	}
}

func alreadyDecided(a api.Approval) *ApprovalResult {
	return refusedCheck(api.RefusalAlreadyDecided, "A pause is decided once, and %s at %s; look at the release before you decide about its next pause",
		decisionMessage(a), formatTimestamp(a.Time.Time))
}

func refusedCheck(why api.Refusal, format string, args ...any) *ApprovalResult {
	j := refusedResult(why, format, args...)
	return &j
}

func refusedResult(why api.Refusal, format string, args ...any) ApprovalResult {
	return ApprovalResult{Refusal: why, Message: fmt.Sprintf(format, args...)}
}

func formatTimestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
