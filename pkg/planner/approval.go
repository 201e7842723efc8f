package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Proposal is what somebody outside wants decided about a release. Zero values of Step, RolloutID, Image and Revision are not given.
type Proposal struct {
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
	Bound *Pause
}

// Pause is one pause of one release of one Rollout. No two are equal.
type Pause struct {
	UID      string
	Epoch    int64
	PauseSeq int64
	Step     int32
}

// Judgement is what comes of a proposal. Without a Refusal it is accepted.
type Judgement struct {
	Refusal api.Refusal
	// Message is a sentence for the sender, with what to do next.
	Message string
	// Pause is the pause that it counts for, or what the release is in.
	Pause Pause
	// Revision and RolloutID are those of that release.
	Revision, RolloutID string
	// At is when it was accepted.
	At time.Time
	// Status is to be committed before anybody is told that it was accepted. It is nil when there is nothing to write: it was refused,
	// or accepted before.
	Status *api.RolloutStatus
}

const (
	// clockSkew is how far the clock of a sender may be off.
	clockSkew = 2 * time.Minute
	// maxAhead is how far in the future a decision may say that it was made; it could be replayed for that long.
	maxAhead = 5 * time.Minute
)

// Judge decides about a proposal. It is a pure function, and an accepted proposal that is judged again is accepted again without
// anything to write. It counts for the pause that was under way both when it arrived and when it is judged.
func Judge(seen rollout.Seen, p Proposal, now time.Time) Judgement {
	j := &judge{planner: newPlanner(seen, now), p: p}
	out := j.judge()
	m := j.m
	if out.Pause == (Pause{}) {
		out.Pause = Pause{UID: seen.UID, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Step: m.Step}
		out.Revision, out.RolloutID = m.CanaryRevision, m.RolloutID
	}
	return out
}

// judge is one call of Judge, on the planner's view of the world.
type judge struct {
	*planner
	p Proposal
}

func (j *judge) judge() Judgement {
	if j.p.Made.After(j.p.Arrived.Add(maxAhead)) {
		return refuse(api.RefusalMalformed, "The event says that it was made at %s, which is in the future; set the sender's clock, or leave the time out",
			stamp(j.p.Made))
	}
	for _, check := range []func() *Judgement{j.repeated, j.ended, j.release, j.bound, j.step, j.paused, j.measured} {
		if found := check(); found != nil {
			return *found
		}
	}
	return j.accept()
}

// repeated answers an event that has counted already as it was answered then.
func (j *judge) repeated() *Judgement {
	for _, a := range j.status.Approvals {
		switch {
		case j.p.ID == "" || a.EventID != j.p.ID || a.Source != j.p.Source:
		case a.Actor == j.p.Principal:
			return accepted(j.seen.UID, a)
		default:
			return refused(api.RefusalAlreadyDecided, "The event of this source and id has counted already, when %s sent it; send a decision of your own with an id of its own", a.Actor)
		}
	}
	return nil
}

// ended refuses where no release is under way that could go on.
func (j *judge) ended() *Judgement {
	state := j.state()
	if !state.Releasing() {
		return refused(api.RefusalNotInProgress, "No release is under way (%s), so there is nothing to decide; change the workload to begin one", cmp.Or(j.status.Phase, api.PhaseInitial))
	}
	if state == rollout.StateAborted {
		return refused(api.RefusalNotInProgress, "%s", j.abortedBecause())
	}
	if state == rollout.StateFinalising || state == rollout.StateCompleted || j.seen.Deleting || j.seen.Spec.Disabled {
		return refused(api.RefusalNotInProgress, "The release is ending already and waits for no decision: %s", j.turnedBecause())
	}
	if problem := j.blind(); problem != nil {
		return refused(api.RefusalNotPaused, "The release is held and cannot be looked at: %s Then decide again", rollout.Sentence(problem.Message))
	}
	if j.workloadGone() {
		return refused(api.RefusalNotInProgress, "The workload of the release was deleted, so there is nothing to decide")
	}
	return nil
}

// release refuses what names another release than the one under way.
func (j *judge) release() *Judgement {
	w, m := j.seen.Workload, j.m
	id := rollout.ReleaseID(w.RolloutID, *m)
	revisions := []string{m.CanaryRevision, j.podTemplateHash()}
	switch {
	case w.Revision != m.CanaryRevision:
		return refused(api.RefusalWrongRelease, "The workload has got another template since this release began, so that it is ending; decide about the new one when it pauses")
	case j.p.RolloutID == "" && j.p.Image == "" && j.p.Revision == "":
		return refused(api.RefusalMalformed, "The event names no release; give at least one of rolloutID, image and revision")
	case j.p.RolloutID != "" && j.p.RolloutID != id:
		return refused(api.RefusalWrongRelease, "The rolloutID %q is not that of the release under way, which is %q; decide about that one if you mean it", j.p.RolloutID, id)
	case j.p.Revision != "" && !slices.Contains(revisions, j.p.Revision):
		return refused(api.RefusalWrongRelease, "The revision %q is not that of the release under way, which is %q; decide about that one if you mean it", j.p.Revision, m.CanaryRevision)
	case j.p.Image != "" && !slices.ContainsFunc(w.Images, func(have string) bool { return rollout.SameImage(j.p.Image, have) }):
		return refused(api.RefusalWrongRelease, "The image %q is none of the new version's, which are %q; name one exactly as the pod template does, or by its digest", j.p.Image, w.Images)
	}
	return nil
}

// bound refuses what was judged for a pause that is over.
func (j *judge) bound() *Judgement {
	b := j.p.Bound
	if b == nil || *b == j.pause() {
		return nil
	}
	if a := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == b.Epoch && a.PauseSeq == b.PauseSeq }); a != nil && b.UID == j.seen.UID {
		return alreadyDecided(*a)
	}
	return refused(api.RefusalExpired, "The pause of step %d that it was sent for is over; look at what runs now and send a new decision", b.Step)
}

// step refuses what names another step than the current one.
func (j *judge) step() *Judgement {
	n := j.p.Step
	if n == 0 || n == j.m.Step {
		return nil
	}
	if a := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == j.m.Epoch && a.Step == n }); a != nil {
		return alreadyDecided(*a)
	}
	return refused(api.RefusalWrongStep, "It is about step %d, and the release is in step %d of %d; decide about that one if you mean it", n, j.m.Step, len(j.seen.Spec.Steps))
}

// paused refuses where the pause has been decided about, has not begun, or begins anew.
func (j *judge) paused() *Judgement {
	m, state := j.m, j.state()
	earlier := rollout.LastApproval(j.status.Approvals, func(a api.Approval) bool { return a.Epoch == m.Epoch })
	switch {
	case (state == rollout.StatePaused || state == rollout.StateReady) && j.decided() != nil:
		return alreadyDecided(*j.decided())
	case earlier != nil && !j.p.Arrived.After(earlier.Time.Time):
		// Several were sent at once: the one that came first has counted, and this one must not pass for the next step.
		return alreadyDecided(*earlier)
	case state == rollout.StateAnalysis && j.seen.Spec.StepAnalysis(m.Step) != nil:
		return refused(api.RefusalNotPaused, "Step %d of %d is being measured; wait for its metrics and send a new decision, or go on nevertheless: sluice approve %s -n %s --force",
			m.Step, len(j.seen.Spec.Steps), j.seen.Name, j.seen.Namespace)
	case state != rollout.StatePaused:
		return refused(api.RefusalNotPaused, "Step %d of %d is not paused yet (%s); wait for it to pause and send a new decision", m.Step, len(j.seen.Spec.Steps), state)
	case j.c.NextStepIndex != j.nextIndex() || m.PlanHash != j.seen.Spec.Hash:
		return refused(api.RefusalNotPaused, "The release has just been told to go to another step, or its steps were changed; wait for the next pause and send a new decision")
	case j.p.Arrived.Before(j.since()):
		return refused(api.RefusalNotPaused, "It came in before step %d paused at %s; look at what runs now and send a new decision", m.Step, stamp(j.since()))
	case !j.p.Made.IsZero() && j.p.Made.Before(j.since().Add(-clockSkew)):
		return refused(api.RefusalExpired, "It was made at %s, before step %d paused at %s; look at what runs now and send a new decision", stamp(j.p.Made), m.Step, stamp(j.since()))
	}
	return nil
}

// measured refuses to approve what metrics have failed. Only a person overrules them.
func (j *judge) measured() *Judgement {
	g, ok := j.worst()
	if !ok || g.run.Phase != api.AnalysisFailed || j.p.Decision != api.DecisionApprove {
		return nil
	}
	return refused(api.RefusalAnalysisFailed, "%s failed: %s Roll the workload back, or go on nevertheless: sluice approve %s -n %s --force",
		rollout.Capital(g.String()), rollout.Sentence(g.run.Message), j.seen.Name, j.seen.Namespace)
}

func (j *judge) pause() Pause {
	return Pause{UID: j.seen.UID, Epoch: j.m.Epoch, PauseSeq: j.m.PauseSeq, Step: j.m.Step}
}

// accept records the decision; the next plan follows it.
func (j *judge) accept() Judgement {
	a := j.record(api.Approval{
		Decision: j.p.Decision, Actor: j.p.Principal, EventID: j.p.ID, Source: j.p.Source, Comment: j.p.Comment, Traceparent: j.p.Traceparent,
	})
	out := accepted(j.seen.UID, a)
	out.Status = &j.status
	return *out
}

func accepted(uid string, a api.Approval) *Judgement {
	return &Judgement{
		Message: decisionMessage(a), Pause: Pause{UID: uid, Epoch: a.Epoch, PauseSeq: a.PauseSeq, Step: a.Step},
		Revision: a.Revision, RolloutID: a.RolloutID, At: a.Time.Time,
	}
}

func alreadyDecided(a api.Approval) *Judgement {
	return refused(api.RefusalAlreadyDecided, "A pause is decided once, and %s at %s; look at the release before you decide about its next pause",
		decisionMessage(a), stamp(a.Time.Time))
}

func refused(why api.Refusal, format string, args ...any) *Judgement {
	j := refuse(why, format, args...)
	return &j
}

func refuse(why api.Refusal, format string, args ...any) Judgement {
	return Judgement{Refusal: why, Message: fmt.Sprintf(format, args...)}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
