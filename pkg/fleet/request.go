package fleet

import (
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Request is what a program outside wants of a release over many clusters: a decision about a wave, or another version.
type Request struct {
	// Decision is approve or reject; "" for a release.
	Decision api.Decision
	// Wave is the name of the wave of a decision.
	Wave string
	// Release and Plan are the version to release, and a FleetPlan to follow; "" for the one that the FleetRollout has.
	Release api.FleetRelease
	Plan    string
	// PlanProblem says why the FleetRollout cannot follow Plan, "" if it can.
	PlanProblem string
	// UID and Epoch are the release that the sender has seen. A decision has both, and a release may have them.
	UID     string
	Epoch   int64
	Comment string
	// Principal sent it; Source and ID tell it from all others.
	Principal, Source, ID string
	// Made is when the sender says that it was made, Arrived when it came in by our own clocks.
	Made, Arrived time.Time
	// Bound is what the first evaluation has bound the request to; nil before that. The request applies to nothing else.
	Bound *RequestBound
}

// RequestBound is the release, and the pause, that a request applies to. Records of open requests have these fields under these names.
type RequestBound struct {
	UID   string
	Epoch int64
	// PauseSeq is the pause of a decision.
	PauseSeq int64
	// Named is the version that spec.release had before. A release replaces it.
	Named api.FleetRelease
}

// RequestResult is what comes of a request. Without a Refusal it is accepted.
type RequestResult struct {
	Refusal api.Refusal
	// Message is a sentence for the sender, with what to do next.
	Message string
	// Epoch, Wave and Version are those of the release that the request applies to, or of the present one.
	Epoch         int64
	Wave, Version string
	Bound         RequestBound
	// At is when it was accepted.
	At time.Time
	// Status is to be committed before the sender gets its answer; nil if nothing is to be written there.
	Status *api.FleetRolloutStatus
	// Name: spec.release, and spec.plan if the request has one, are to be written before the sender gets its answer.
	Name bool
	// Waiting: the version is named, and the hub has not looked at it yet. The request is to be judged again.
	Waiting bool
}

const (
	// maxRequestAge is how old a release may be when it arrives. Processes remember its answer for longer.
	maxRequestAge = 24 * time.Hour
	// maxAhead is how far in the future a request may say that it was made; it could be replayed for that long.
	maxAhead = 5 * time.Minute
)

// EvaluateRequest decides about a request that came as an event. It is a pure function, and an accepted request that is judged again is accepted again without
// anything to write. A decision counts for the pause that was under way both when it arrived and when it is judged.
func EvaluateRequest(r *api.FleetRollout, q Request, now time.Time) RequestResult {
	seen := Seen{Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Status: r.Status}
	j := &requestEvaluation{planner: newPlanner(seen, now), rollout: r, request: q}
	out := j.evaluate()
	if out.Epoch == 0 && out.Refusal != "" {
		out.Epoch, out.Version = r.Status.Epoch, versionText(r.Status.Release)
		if j.waveKnown() {
			out.Wave = j.wave().Name
		}
	}
	out.At = now
	return out
}

// requestEvaluation is one call of [EvaluateRequest], on the planner's view of the world.
type requestEvaluation struct {
	*planner
	rollout *api.FleetRollout
	request Request
}

func (j *requestEvaluation) evaluate() RequestResult {
	checks := []func() *RequestResult{j.fromTheFuture, j.alreadyCounted, j.sameObject}
	if j.request.Decision == "" {
		checks = append(checks, j.tooOld, j.versionNamed, j.sameEpoch, j.versionAllowed, j.planAllowed, j.nothingBetween)
	} else {
		checks = append(checks, j.sameEpoch, j.releaseUnderWay, j.sameWave, j.pauseUnchanged, j.undecided, j.wavePaused, j.inTime)
	}
	for _, check := range checks {
		if found := check(); found != nil {
			return *found
		}
	}
	if j.request.Decision == "" {
		return RequestResult{Bound: RequestBound{UID: j.seen.UID, Epoch: j.status.Epoch, Named: j.named()}, Name: true}
	}
	return j.acceptDecision()
}

func refusedRequest(why api.Refusal, format string, args ...any) *RequestResult {
	return &RequestResult{Refusal: why, Message: fmt.Sprintf(format, args...)}
}

func (j *requestEvaluation) fromTheFuture() *RequestResult {
	if !j.request.Made.After(j.request.Arrived.Add(maxAhead)) {
		return nil
	}
	return refusedRequest(api.RefusalMalformed, "The event says that it was made at %s, which is in the future; set the sender's clock", timeText(j.request.Made))
}

// alreadyCounted answers a decision that has counted already as it was answered then.
func (j *requestEvaluation) alreadyCounted() *RequestResult {
	for _, a := range j.status.Approvals {
		switch {
		case j.request.ID == "" || a.EventID != j.request.ID || a.Source != j.request.Source:
		case a.Actor == j.request.Principal:
			return j.acceptedAs(a)
		default:
			return refusedRequest(api.RefusalAlreadyDecided, "The event of this source and id has counted already, when %s sent it; send an event of your own with an id of its own", a.Actor)
		}
	}
	return nil
}

// sameObject refuses a request about a FleetRollout that was deleted.
func (j *requestEvaluation) sameObject() *RequestResult {
	switch {
	case j.rollout.DeletionTimestamp != nil:
		return refusedRequest(api.RefusalNotInProgress, "The FleetRollout is being deleted; create it again first")
	case j.request.UID != "" && j.request.UID != j.seen.UID:
		return refusedRequest(api.RefusalWrongRelease, "The FleetRollout with the uid %s was deleted; the one of this name has the uid %s. Look at its release before you decide", j.request.UID, j.seen.UID)
	case j.request.Bound != nil && j.request.Bound.UID != j.seen.UID:
		return refusedRequest(api.RefusalExpired, "The FleetRollout was deleted and created again meanwhile; look at its release and send a new event")
	}
	return nil
}

func (j *requestEvaluation) sameEpoch() *RequestResult {
	if j.request.Epoch == 0 || j.request.Epoch == j.status.Epoch {
		return nil
	}
	return refusedRequest(api.RefusalWrongRelease, "It is about release %d, and release %d (%s) is the present one; look at it, and send a new event if you mean it",
		j.request.Epoch, j.status.Epoch, j.described())
}

// described says what the present release is.
func (j *requestEvaluation) described() string {
	if j.status.Release == nil {
		return "without a version"
	}
	return fmt.Sprintf("%s, %s", versionText(j.status.Release), j.status.Phase)
}

func (j *requestEvaluation) releaseUnderWay() *RequestResult {
	switch {
	case j.status.Release == nil:
		return refusedRequest(api.RefusalNotInProgress, "No release is under way, so there is nothing to decide")
	case j.status.Verb != api.FleetVerbRelease, j.status.Phase == api.FleetPhaseSucceeded:
		return refusedRequest(api.RefusalNotInProgress, "The release has ended, so there is nothing to decide (%s)", j.described())
	}
	return nil
}

// sameWave refuses what names another wave than the one under way.
func (j *requestEvaluation) sameWave() *RequestResult {
	err := j.readPlan()
	if err != nil {
		return refusedRequest(api.RefusalNotInProgress, "The status of the FleetRollout is not valid: %v", err)
	}
	place := slices.IndexFunc(j.spec.Waves, func(w Wave) bool { return w.Name == j.request.Wave })
	switch {
	case place < 0:
		return refusedRequest(api.RefusalWrongWave, "The plan of the release has no wave %q", j.request.Wave)
	case place+1 > int(j.status.Wave):
		return refusedRequest(api.RefusalNotPaused, "Wave %s has not begun; wait for it, and send a new event", j.request.Wave)
	case place+1 == int(j.status.Wave) && !waveEnded(*j.wave()):
		return nil
	}
	for _, a := range slices.Backward(j.status.Approvals) {
		if a.Epoch == j.status.Epoch && int(a.Wave) == place+1 {
			return j.alreadyDecided(a)
		}
	}
	return refusedRequest(api.RefusalWrongWave, "Wave %s has passed, so there is nothing to decide about it", j.request.Wave)
}

// pauseUnchanged refuses a decision that was bound to an earlier pause.
func (j *requestEvaluation) pauseUnchanged() *RequestResult {
	if b := j.request.Bound; b == nil || b.Epoch == j.status.Epoch && b.PauseSeq == j.status.PauseSeq {
		return nil
	}
	return refusedRequest(api.RefusalExpired, "The pause of wave %s that it was sent for is over; look at the release and send a new event", j.request.Wave)
}

// undecided refuses a second decision about a pause. Only a user takes a rejection back.
func (j *requestEvaluation) undecided() *RequestResult {
	if a := j.rejection(); a != nil {
		return j.alreadyDecided(*a)
	}
	for _, a := range slices.Backward(j.status.Approvals) {
		if a.Epoch >= j.status.Began && a.PauseSeq == j.status.PauseSeq && j.paused() {
			return j.alreadyDecided(a)
		}
	}
	return nil
}

// paused reports whether the wave under way is in a pause.
func (j *requestEvaluation) paused() bool {
	return j.wave().Stage == api.FleetWaveHoldPause || j.wave().Stage == api.FleetWavePause
}

// wavePaused refuses an approval of a wave that does not wait for one. A rejection counts at any time in the wave.
func (j *requestEvaluation) wavePaused() *RequestResult {
	w, pause := j.wave(), j.spec.Waves[j.status.Wave-1].Pause
	if w.Stage == api.FleetWaveHoldPause {
		pause = j.spec.Waves[j.status.Wave-1].HoldPause
	}
	switch {
	case j.request.Decision != api.DecisionApprove:
		return nil
	case !j.paused():
		return refusedRequest(api.RefusalNotPaused, "Wave %s does not wait for an approval yet: %s. Wait for it, and send a new event", w.Name, j.status.Message)
	case !pause.Manual:
		return refusedRequest(api.RefusalNotPaused, "The pause of wave %s ends by itself, and an approval does not shorten it", w.Name)
	}
	return nil
}

// inTime refuses a decision that is older than what it is about: the pause of an approval, or the wave of a rejection.
func (j *requestEvaluation) inTime() *RequestResult {
	since, what := j.wave().Since.Time, "paused"
	if j.request.Decision == api.DecisionReject {
		since, what = j.wave().Began.Time, "began"
	}
	switch {
	case j.request.Arrived.Before(since):
		return refusedRequest(api.RefusalNotPaused, "It came in before wave %s %s at %s; look at the release and send a new event", j.request.Wave, what, timeText(since))
	case !j.request.Made.IsZero() && j.request.Made.Before(since.Add(-MaxClockSkew)):
		return refusedRequest(api.RefusalExpired, "It was made at %s, before wave %s %s at %s; look at the release and send a new event", timeText(j.request.Made), j.request.Wave, what, timeText(since))
	}
	return nil
}

func (j *requestEvaluation) alreadyDecided(a api.FleetApproval) *RequestResult {
	return refusedRequest(api.RefusalAlreadyDecided, "%s; a pause is decided once. A user takes a rejection back with: sluice fleet approve %s -n %s",
		decisionText(a, j.request.Wave), j.seen.Name, j.seen.Namespace)
}

func decisionText(a api.FleetApproval, wave string) string {
	verb := "approved"
	if a.Decision == api.DecisionReject {
		verb = "rejected"
	}
	return withComment(fmt.Sprintf("wave %s was %s by %s", wave, verb, a.Actor), a.Comment)
}

// acceptDecision records the decision; the next plan follows it.
func (j *requestEvaluation) acceptDecision() RequestResult {
	q := j.request
	a := j.decide(api.FleetApproval{Decision: q.Decision, Actor: q.Principal, EventID: q.ID, Source: q.Source, Comment: q.Comment})
	action := api.FleetCommandApprove
	if a.Decision == api.DecisionReject {
		action = api.FleetCommandReject
	}
	out := j.acceptedAs(a)
	j.record(string(j.status.Phase), string(j.status.Phase), string(action), out.Message, a.Actor)
	out.Status = &j.status
	return *out
}

// acceptedAs returns the answer to a decision that counts.
func (j *requestEvaluation) acceptedAs(a api.FleetApproval) *RequestResult {
	wave := ""
	if a.Epoch >= j.status.Began && int(a.Wave) <= len(j.status.Waves) && a.Wave > 0 {
		wave = j.status.Waves[a.Wave-1].Name
	}
	return &RequestResult{
		Message: decisionText(a, wave), Epoch: a.Epoch, Wave: wave, Version: versionText(j.status.Release),
		Bound: RequestBound{UID: j.seen.UID, Epoch: a.Epoch, PauseSeq: a.PauseSeq},
	}
}
