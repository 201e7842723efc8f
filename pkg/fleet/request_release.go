package fleet

import (
	"cmp"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// tooOld refuses a release that could be a repetition of one whose answer no process remembers any more. A release with an epoch is bound to it.
func (j *requestEvaluation) tooOld() *RequestResult {
	switch {
	case j.request.Epoch > 0:
		return nil
	case j.request.Made.IsZero():
		return refusedRequest(api.RefusalMalformed, "The event has neither a time nor data.epoch, so the hub cannot tell it from an old one; give it a time")
	case j.request.Made.Before(j.request.Arrived.Add(-maxRequestAge)):
		return refusedRequest(api.RefusalExpired, "It was made at %s, more than a day before it came in; send a new event", timeText(j.request.Made))
	}
	return nil
}

// named returns the version that spec.release names.
func (j *requestEvaluation) named() api.FleetRelease {
	if j.rollout.Spec.Release == nil {
		return api.FleetRelease{}
	}
	return *j.rollout.Spec.Release
}

// versionNamed answers a request for a version that the FleetRollout names already.
func (j *requestEvaluation) versionNamed() *RequestResult {
	q, version := j.request, versionText(&j.request.Release)
	if !j.named().Same(q.Release) || q.Plan != "" && q.Plan != j.rollout.Spec.Plan {
		return nil
	}
	out := &RequestResult{Version: version, Bound: RequestBound{UID: j.seen.UID, Epoch: j.status.Epoch, Named: j.named()}}
	begun := j.status.Release != nil && j.status.Release.Same(q.Release)
	switch {
	case j.status.ObservedGeneration < j.rollout.Generation:
		out.Waiting = true
	case q.Bound == nil && begun && j.status.Verb != api.FleetVerbRelease:
		if blocked := j.versionAllowed(); blocked != nil {
			return blocked
		}
		return refusedRequest(api.RefusalNotInProgress, "The release of %s has ended (%s); a user begins it again with: sluice fleet resume %s -n %s",
			version, j.status.Phase, j.seen.Name, j.seen.Namespace)
	case begun:
		out.Epoch = j.status.Epoch
		out.Message = fmt.Sprintf("release %d of %s has begun; it is %s: %s", out.Epoch, version, j.status.Phase, j.status.Message)
		if j.waveKnown() {
			out.Wave = j.wave().Name
		}
	default:
		out.Message = fmt.Sprintf("the FleetRollout names %s, and its release has not begun: %s", version, j.status.Message)
	}
	return out
}

// versionAllowed refuses a version that was withdrawn. A pipeline must not bring it back.
func (j *requestEvaluation) versionAllowed() *RequestResult {
	if key := j.request.Release.Key(); j.blocked(key) {
		return refusedRequest(api.RefusalBlocked, "%s was withdrawn before; release another version, or a user types: sluice fleet unblock %s %s -n %s",
			versionText(&j.request.Release), j.seen.Name, key, j.seen.Namespace)
	}
	return nil
}

func (j *requestEvaluation) planAllowed() *RequestResult {
	switch {
	case j.request.Plan == "":
		return nil
	case j.rollout.Spec.Plan == "":
		return refusedRequest(api.RefusalWrongPlan, "The FleetRollout has waves of its own, so it can follow no FleetPlan; leave plan out")
	case j.request.PlanProblem != "":
		return refusedRequest(api.RefusalWrongPlan, "%s", j.request.PlanProblem)
	}
	return nil
}

// nothingBetween refuses a release if the FleetRollout has got another version since the first evaluation.
func (j *requestEvaluation) nothingBetween() *RequestResult {
	if b := j.request.Bound; b == nil || b.Epoch == j.status.Epoch && b.Named.Same(j.named()) {
		return nil
	}
	return refusedRequest(api.RefusalWrongRelease, "The FleetRollout has got another version meanwhile (%s); look at it, and send a new event if you mean it", j.described())
}

// versionText is the version of a release in an answer: its own, or else the digest of its images; "" for none.
func versionText(r *api.FleetRelease) string {
	if r == nil || r.Key() == "" {
		return ""
	}
	return cmp.Or(r.Version, api.FleetImagesDigest(r.Images))
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
