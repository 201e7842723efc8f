package fleet

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// finishGrant writes the permits of the last grant into the FleetTargets that do not have them yet. It reports whether the planner sees all of
// them; only then a run may make the next grant.
func (p *planner) finishGrant() bool {
	g := p.seen.Status.Grant
	if g == nil || g.Epoch != p.status.Epoch {
		return true // a new epoch has begun: its first grants take back the clusters of the last grant
	}
	done := true
	for _, name := range g.Clusters {
		c := p.clusters[name]
		if c == nil || c.member == nil || c.grantSeen(g) {
			continue
		}
		done = false
		if forward(g.Verb) && c.report == nil {
			continue // the permit names the template of the report, which the executor has still to read
		}
		status := api.FleetTargetStatus{Wave: c.wave, Report: c.report}
		if g.Verb == api.FleetVerbAbort && p.permitted(c) && c.phase != api.FleetTargetSkipped && !c.hasLeft() {
			c.status.Failure = cmp.Or(c.status.Failure, reasonDeadline)
		}
		p.targets[name] = Target{Permit: p.permitOf(c, g), Status: status}
	}
	return done
}

// permitOf returns what a grant allows one cluster. A forward permit names the pod template and the steps that the cluster has reported, or the images that the
// cluster sets.
func (p *planner) permitOf(c *cluster, g *api.FleetGrant) api.FleetPermit {
	permit := api.FleetPermit{Epoch: g.Epoch, Seq: g.Seq, Verb: g.Verb, Version: p.key(), Clusters: int32(len(p.clusters))}
	switch g.Verb {
	case api.FleetVerbAbort:
		permit.Version = "" // each version that is under way without a newer permit
		if c.target != nil {
			permit.NotAfter = c.target.Permit.NotAfter // until then the cluster may not know that it must go back
		}
	case api.FleetVerbWithdraw:
		if version := p.versionToWithdraw(c); version != "" || p.status.Verb != api.FleetVerbWithdraw {
			permit.Version = version
		}
		if permit.Version == "" { // it has gone back meanwhile
			permit.Verb = api.FleetVerbAbort
		}
	}
	if !forward(g.Verb) {
		return permit
	}
	end := metav1.NewMicroTime(g.Time.Add(p.spec.ProgressDeadline))
	permit.HoldAt, permit.NotAfter, permit.LocalPauses, permit.NoTraffic = g.HoldAt, &end, p.spec.Written.LocalPauses, c.member.NoTraffic
	permit.Revision, permit.PlanHash = c.report.Template.Revision, c.report.PlanHash
	permit.SkipAnalyses, permit.RolloutUID = p.skippedAnalyses(c), c.report.RolloutUID
	if c.wave > 0 {
		permit.Wave = p.status.Waves[c.wave-1].Name
	}
	if p.delivers(c.report) {
		permit.Revision, permit.Images = "", p.status.Release.Images
	}
	return permit
}

// grant commits permits for clusters. The permits reach the FleetTargets in the next run, after the commit. It does nothing without clusters, or
// if this run has made a grant before.
func (p *planner) grant(verb api.FleetVerb, holdAt, wave int32, clusters []string) {
	if p.granted || len(clusters) == 0 {
		return
	}
	p.granted = true
	p.status.Grant = &api.FleetGrant{
		Epoch: p.status.Epoch, Seq: p.grantSeq() + 1, Verb: verb, HoldAt: holdAt, Wave: wave, Time: p.microNow(), Clusters: clusters[:min(len(clusters), MaxGrant)],
	}
	p.status.Retries = slices.DeleteFunc(p.status.Retries, func(name string) bool { return slices.Contains(p.status.Grant.Clusters, name) })
}

// renewPermits extends the time of permits whose clusters stand still, because they wait at a hold or for a person, when half of it has passed. A
// cluster that is under way gets no more time: when its permit ends, it has failed.
func (p *planner) renewPermits() {
	for _, name := range p.names {
		c := p.clusters[name]
		if !p.permitted(c) || c.target.Permit.NotAfter == nil || c.status.ProgressingSince != nil || c.phase == api.FleetTargetUnknown ||
			!c.underWay() && c.phase != api.FleetTargetAtHold {
			continue
		}
		if left := max(p.spec.ProgressDeadline-c.status.Progressed.Duration, shortestRenewal); p.elapsed(c.target.Permit.NotAfter.Time, -left/2) {
			next := Target{Permit: c.target.Permit, Status: c.status}
			end := metav1.NewMicroTime(p.now.Add(left).Truncate(time.Microsecond))
			next.Permit.NotAfter = &end
			p.targets[name] = next
		}
	}
}

// late reports whether a cluster that has failed by the clock of the hub, or holds another version, may still go forward under its permit.
func (p *planner) late(c *cluster) bool {
	if c.phase != api.FleetTargetFailed && c.phase != api.FleetTargetDiverged || c.target == nil || c.completed() || c.failed() || c.target.Permit.Verb == api.FleetVerbHold {
		return false
	}
	return c.target.Permit.NotAfter != nil && !p.elapsed(c.target.Permit.NotAfter.Time, MaxClockSkew)
}

// underWay reports whether a cluster may go forward under its permit, as far as the hub knows.
func (c *cluster) underWay() bool {
	return c.phase == api.FleetTargetPermitted || c.phase == api.FleetTargetProgressing || c.phase == api.FleetTargetUnknown
}
