package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// Reasons of the phases of a target.
const (
	reasonUnreachable  = "Unreachable"
	reasonCordoned     = "Cordoned"
	reasonNotDelivered = "NotDelivered"
	reasonUnenforced   = "NoEnforcement"
	reasonClockSkew    = "ClockSkew"
	reasonNameTaken    = "NameTaken"
	reasonGoingBack    = "GoingBack"
	reasonNoIdentity   = "NoIdentity"
	reasonForgotten    = "PermitForgotten"
	reasonBlocked      = "Blocked"
	reasonDeadline     = "ProgressDeadlineExceeded"
	reasonUnhealthy    = "Unhealthy"
	reasonEligible     = "Eligible"
	reasonOverridden   = "Overridden"
)

// cluster is a member in this release, as far as the hub knows it.
type cluster struct {
	name   string
	member *Member // nil: the member has left
	target *Target // nil: it has had no grant
	report *api.FleetReport
	wave   int32 // 0: no wave has drawn it
	phase  api.FleetTargetPhase
	reason string
	// status is the next status of the target.
	status api.FleetTargetStatus
	// unhealthy: it has completed and is unhealthy now.
	unhealthy bool
	// soaked: it has been healthy at the hold of its wave for long enough.
	soaked bool
}

// readClusters collects the clusters of the release, and finds out how far each has come.
func (p *planner) readClusters() {
	for i, w := range p.status.Waves {
		for _, name := range w.Clusters {
			p.clusterNamed(name).wave = int32(i + 1)
		}
	}
	for name, t := range p.seen.Targets {
		if _, is := p.seen.Members[name]; is || t.Permit.Epoch >= p.status.Began { // it left before this release otherwise
			p.clusterNamed(name)
		}
	}
	for name, m := range p.seen.Members {
		if p.spec.Clusters.Matches(m.Labels) {
			p.clusterNamed(name)
		}
	}
	p.names = slices.Sorted(maps.Keys(p.clusters))
	p.readConnections()
	if p.status.Phase == api.FleetPhasePaused && p.status.Reason == reasonPaused && !p.paused() && p.waveKnown() {
		p.wave().DeliveryFrom = p.microNow()
	}
	for _, name := range p.names {
		p.readCluster(p.clusters[name])
	}
	p.followClusterCommand()
	p.status.Retries = slices.DeleteFunc(p.status.Retries, func(name string) bool {
		c := p.clusters[name]
		return c == nil || !c.goingBack() && !canTryAgain(c.phase, c.reason)
	})
}

// canTryAgain reports whether a person can tell a cluster of this phase and reason to try again.
func canTryAgain(phase api.FleetTargetPhase, reason string) bool {
	why, _ := RetryRefusal(phase, reason)
	return why == "" && phase != api.FleetTargetSkipped
}

// clusterNamed returns the cluster of that name.
func (p *planner) clusterNamed(name string) *cluster {
	if c := p.clusters[name]; c != nil {
		return c
	}
	c := &cluster{name: name}
	if m, is := p.seen.Members[name]; is {
		c.member = &m
	}
	if t, is := p.seen.Targets[name]; is {
		c.target, c.report = &t, t.Status.Report
		c.status = t.Status // its pointers are replaced, and nothing is written through them
	}
	if r, is := p.seen.Reports[name]; is && (c.report == nil || (!r.Number().Before(c.report.Number()) || gone(r)) && !sameReport(r, *c.report)) {
		c.report = &r
	}
	p.clusters[name] = c
	return c
}

// gone reports whether a cluster has no governed Rollout any more. Such a report answers no permit.
func gone(r api.FleetReport) bool {
	return r.State == api.FleetReportAbsent || r.State == api.FleetReportUngoverned
}

func sameReport(a, b api.FleetReport) bool {
	return a.Epoch == b.Epoch && a.Seq == b.Seq && a.RolloutUID == b.RolloutUID && a.State == b.State && a.Reason == b.Reason && a.Message == b.Message && a.Template == b.Template &&
		a.Stable == b.Stable && a.Step == b.Step && a.PlanHash == b.PlanHash && a.AwaitsPerson == b.AwaitsPerson && a.Unhealthy == b.Unhealthy &&
		a.CanGoBack == b.CanGoBack && a.Unpermitted == b.Unpermitted && a.Overridden == b.Overridden && slices.Equal(a.Blocked, b.Blocked)
}

// readCluster finds the phase of a cluster, and keeps the times of its target.
func (p *planner) readCluster(c *cluster) {
	before, reason := c.status.Phase, c.status.Reason
	if t := c.target; t != nil && (c.status.Epoch != t.Permit.Epoch || c.status.Seq != t.Permit.Seq) {
		next := api.FleetTargetStatus{Epoch: t.Permit.Epoch, Seq: t.Permit.Seq, Since: c.status.Since}
		if !forward(t.Permit.Verb) {
			next.Failure = c.status.Failure // the hub takes a cluster back that is late
		}
		c.status = next
	}
	c.phase, c.reason = p.phaseOf(c)
	switch {
	case c.target == nil:
	case c.phase == api.FleetTargetFailed:
		c.status.Failure = c.reason
	case p.status.Verb != api.FleetVerbRelease && forward(c.target.Permit.Verb) && c.failed(): // the run that decided to go back has not written it
		c.status.Failure = cmp.Or(c.status.Failure, c.report.Reason)
	}
	c.status.Phase, c.status.Reason, c.status.Wave, c.status.Began = c.phase, c.reason, c.wave, p.status.Began
	c.status.Report = c.report
	if c.phase != before || c.reason != reason || c.status.Since == nil {
		c.status.Since = new(p.microNow())
	}
}

// reachable reports whether the hub has heard the member a short time ago. If the cluster is in a wave, the executor plans again when the member
// has been silent for too long.
func (p *planner) reachable(c *cluster) bool {
	if c.member == nil || c.member.NameTaken || c.member.silent(p.now) {
		return false
	}
	if c.wave > 0 || c.target != nil {
		p.wakeAt(c.member.LastSeen.Add(UnreachableAfter))
	}
	return true
}

// silent reports whether the last heartbeat is too old.
func (m Member) silent(now time.Time) bool { return !now.Before(m.LastSeen.Add(UnreachableAfter)) }

// answered reports whether the member's last report is about its last permit.
func (c *cluster) answered() bool {
	return c.target != nil && c.report != nil && c.report.Epoch == c.target.Permit.Epoch && c.report.Seq == c.target.Permit.Seq
}

// createdAgain reports whether the Rollout of the permit was deleted before it completed, and another one of its name reports.
func (c *cluster) createdAgain() bool {
	if c.target == nil || c.report == nil || c.status.CompletedAt != nil {
		return false
	}
	was, is := c.target.Permit.RolloutUID, c.report.RolloutUID
	return was != "" && is != "" && was != is
}

// completed reports whether the member has carried out its last permit.
func (c *cluster) completed() bool {
	if !c.answered() || c.report.State != api.FleetReportCompleted {
		return false
	}
	switch permit := c.target.Permit; {
	case !forward(permit.Verb):
		return true
	case len(permit.Images) > 0:
		return c.report.Stable.Images == api.FleetImagesDigest(permit.Images)
	default:
		return permit.Revision == "" || c.report.Stable.Revision == permit.Revision
	}
}

// failed reports whether the release of the last permit has ended without success.
func (c *cluster) failed() bool { return c.answered() && c.report.State == api.FleetReportFailed }

// goingBack reports whether the cluster has been told to go back, and has not answered.
func (c *cluster) goingBack() bool {
	return c.target != nil && !forward(c.target.Permit.Verb) && !c.completed() && !c.movedOn()
}

// overridden reports whether a user of the cluster lets its release go on without permits.
func (c *cluster) overridden() bool { return c.report != nil && c.report.Overridden != "" }

// movedOn reports whether the member has a newer permit than its target. A hub that was restored has forgotten it.
func (c *cluster) movedOn() bool {
	return c.target != nil && c.report != nil && c.target.Permit.Number().Before(c.report.Number())
}

// permitted reports whether the last permit of the cluster is about this release: it allows or holds it.
func (p *planner) permitted(c *cluster) bool {
	return p.status.Verb == api.FleetVerbRelease && c.target != nil && c.target.Permit.Epoch >= p.status.Began && forward(c.target.Permit.Verb)
}

// forward reports whether a permit with the verb may have begun a release.
func forward(verb api.FleetVerb) bool {
	return verb == api.FleetVerbRelease || verb == api.FleetVerbHold
}

func (p *planner) phaseOf(c *cluster) (api.FleetTargetPhase, string) {
	switch {
	case slices.Contains(p.status.Skipped, c.name):
		return api.FleetTargetSkipped, ""
	case c.member == nil:
		return api.FleetTargetLeft, ""
	case c.report != nil && c.report.State == api.FleetReportAbsent, p.permitted(c) && c.createdAgain():
		return api.FleetTargetAbsent, ""
	case c.report != nil && c.report.State == api.FleetReportUngoverned:
		return api.FleetTargetUngoverned, ""
	case c.status.Failure != "" && p.status.Verb == api.FleetVerbRelease && c.target != nil && (c.target.Permit.Epoch >= p.status.Began || c.goingBack() && !p.retried(c)):
		return api.FleetTargetFailed, c.status.Failure // until a newer permit
	case c.target != nil && c.target.Permit.Epoch == p.status.Epoch && !forward(c.target.Permit.Verb):
		return p.phaseOfReturn(c)
	case p.permitted(c):
		return p.phaseOfPermit(c)
	case p.status.Verb == api.FleetVerbAbort && c.target != nil && forward(c.target.Permit.Verb) && c.completed():
		return api.FleetTargetCompleted, ""
	}
	return p.phaseBeforePermit(c)
}

// phaseOfReturn is the phase of a cluster that has been told to go back in this epoch.
func (p *planner) phaseOfReturn(c *cluster) (api.FleetTargetPhase, string) {
	switch {
	case c.completed() && p.status.Verb == api.FleetVerbRelease: // it has gone back from the version before
		return p.phaseBeforePermit(c)
	case c.completed():
		return api.FleetTargetWithdrawn, ""
	case c.failed():
		return api.FleetTargetFailed, c.report.Reason
	case !p.reachable(c):
		return api.FleetTargetUnknown, reasonUnreachable
	}
	if c.status.Reason == reasonGoingBack && c.status.Since != nil && p.status.Verb == api.FleetVerbRelease && p.elapsed(c.status.Since.Time, p.spec.ProgressDeadline) {
		return api.FleetTargetFailed, reasonGoingBack
	}
	return api.FleetTargetProgressing, reasonGoingBack
}

// phaseBeforePermit is the phase of a cluster that has no permit for this release.
func (p *planner) phaseBeforePermit(c *cluster) (api.FleetTargetPhase, string) {
	r := c.report
	goingBack := c.goingBack() && !p.retried(c) // the permit of another try takes the place of the order to go back
	switch {
	case c.member.NameTaken:
		return api.FleetTargetDeferred, reasonNameTaken
	case !p.reachable(c) && (p.cutOff || c.member.LastSeen.IsZero() && p.starting):
		return api.FleetTargetPending, reasonUnreachable // it is the hub that hears nothing
	case !p.reachable(c):
		return api.FleetTargetDeferred, reasonUnreachable
	case r == nil || r.State == api.FleetReportAbsent:
		return api.FleetTargetAbsent, ""
	case r.State == api.FleetReportUngoverned:
		return api.FleetTargetUngoverned, ""
	case r.Unpermitted != "" && r.Unpermitted != api.FleetUnpermittedFirstInstall && p.status.Release.Matches(r.Template):
		return api.FleetTargetUnpermitted, r.Unpermitted
	case goingBack && c.status.Since != nil && c.status.Reason == reasonGoingBack && p.elapsed(c.status.Since.Time, p.spec.ProgressDeadline):
		return api.FleetTargetFailed, reasonGoingBack
	case goingBack:
		return api.FleetTargetPending, reasonGoingBack
	case p.releasing(r) && c.overridden():
		return api.FleetTargetProgressing, reasonOverridden
	case p.releasing(r):
		return api.FleetTargetProgressing, reasonForgotten
	case c.member.Cordoned:
		return api.FleetTargetDeferred, reasonCordoned
	case c.member.Unenforced:
		return api.FleetTargetDeferred, reasonUnenforced
	case c.member.ClockSkew.Abs() > MaxClockSkew: // the cluster and the hub would not agree on when its permit ends
		return api.FleetTargetDeferred, reasonClockSkew
	}
	runs := p.status.Release.Matches(r.Stable)
	arrived := p.status.Release.Matches(r.Template)
	why := ""
	switch {
	case arrived && runs && r.Template.Revision != r.Stable.Revision:
		why = reasonNoIdentity // a change that the name of the version does not show
	case arrived && p.templateBlocked(r.Template):
		why = reasonBlocked // it was withdrawn under another name
	}
	if why != "" || !arrived && !p.delivers(r) {
		if c.wave > 0 && !p.paused() && p.elapsed(p.status.Waves[c.wave-1].DeliveryFrom.Time, p.spec.DeliveryDeadline) {
			return api.FleetTargetDeferred, cmp.Or(why, reasonNotDelivered)
		}
		return api.FleetTargetAwaitingDelivery, why
	}
	if !r.CanGoBack && p.spec.withdraws() && !p.spec.AllowNoWayBack && !runs {
		return api.FleetTargetNoWayBack, ""
	}
	return api.FleetTargetPending, reasonEligible
}

// delivers reports whether the cluster sets the images of the release itself, by its permit.
func (p *planner) delivers(r *api.FleetReport) bool {
	return p.seen.Delivery == DeliveryPatch && len(p.status.Release.Images) > 0 && r.Template.Revision != "" && !p.status.Release.Matches(r.Template)
}

// releasing reports whether a cluster is under way to the version of the release. Without a permit in its target, the hub has forgotten the permit.
func (p *planner) releasing(r *api.FleetReport) bool {
	return (r.State == api.FleetReportProgressing || r.State == api.FleetReportAtHold) && p.status.Release.Matches(r.Template) && !p.status.Release.Matches(r.Stable)
}

// phaseOfPermit is the phase of a cluster that has a permit for this release.
func (p *planner) phaseOfPermit(c *cluster) (api.FleetTargetPhase, string) {
	s := &c.status
	switch {
	case c.failed():
		return api.FleetTargetFailed, c.report.Reason
	case c.completed() || s.CompletedAt != nil && c.report != nil && p.status.Release.Matches(c.report.Stable):
		return p.phaseOfSoak(c)
	case c.member.LastSeen.IsZero() && p.starting:
		return api.FleetTargetPermitted, reasonUnreachable // the executor has still to hear it
	case !p.reachable(c):
		p.stopProgress(s)
		p.stopSoak(c)
		s.HeldSince = nil // the limit of the soak begins again when the cluster is back
		return api.FleetTargetUnknown, reasonUnreachable
	case c.answered() && c.report.State == api.FleetReportHeld && !p.status.Release.Matches(c.report.Template):
		return api.FleetTargetDiverged, ""
	case c.answered() && c.report.State == api.FleetReportAtHold && c.report.Reason != api.FleetReasonPlanChanged:
		p.stopProgress(s)
		return p.phaseOfHold(c)
	}
	if p.progressExpired(c) {
		return api.FleetTargetFailed, reasonDeadline
	}
	switch {
	case c.answered() && c.report.Reason == api.FleetReasonPlanChanged:
		return api.FleetTargetProgressing, api.FleetReasonPlanChanged
	case c.answered() && c.report.State == api.FleetReportProgressing:
		return api.FleetTargetProgressing, ""
	}
	return api.FleetTargetPermitted, ""
}

// progressExpired counts the time of a release under way. The time stands still while the cluster waits for a person of its own.
func (p *planner) progressExpired(c *cluster) bool {
	s := &c.status
	if c.answered() && c.report.AwaitsPerson || c.target.Permit.Verb == api.FleetVerbHold {
		p.stopProgress(s)
		return false
	}
	if s.ProgressingSince == nil {
		s.ProgressingSince = new(p.microNow())
	}
	return p.elapsed(s.ProgressingSince.Time, p.spec.ProgressDeadline-s.Progressed.Duration)
}

func (p *planner) stopProgress(s *api.FleetTargetStatus) {
	s.Progressed, s.ProgressingSince = stopClock(s.Progressed, s.ProgressingSince, p.now)
}

// stopClock adds the stretch of time from since until now to the sum before.
func stopClock(sum metav1.Duration, since *metav1.MicroTime, now time.Time) (metav1.Duration, *metav1.MicroTime) {
	if since != nil {
		sum.Duration += max(0, now.Sub(since.Time))
	}
	return sum, nil
}

// skippedAnalyses returns the templates whose analyses a person told the cluster to skip.
func (p *planner) skippedAnalyses(c *cluster) []string {
	if c.wave == 0 || c.wave > p.status.Promoted {
		return nil
	}
	return p.status.SkipAnalyses
}

// describeClusters collects the FleetTargets whose status has changed.
func (p *planner) describeClusters() {
	for _, name := range p.names {
		c := p.clusters[name]
		if c.target == nil {
			continue
		}
		next := Target{Permit: c.target.Permit, Status: c.status}
		if written, is := p.targets[name]; is {
			next.Permit = written.Permit
		}
		if next.Status != c.target.Status || !permitKept(next.Permit, c.target.Permit) {
			p.targets[name] = next
		}
	}
}

// permitKept reports whether two permits of a cluster are the same one. Only the end of a permit changes, by a renewal, which replaces the pointer.
func permitKept(a, b api.FleetPermit) bool {
	return a.Number() == b.Number() && a.NotAfter == b.NotAfter
}
