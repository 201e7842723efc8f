package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// beginWithdrawal begins a new epoch in which all clusters go back from the version of the release. No cluster gets the version again before a
// person unblocks it.
func (p *planner) beginWithdrawal(reason, message, actor string) {
	p.beginEpoch(api.FleetVerbWithdraw)
	p.mergeBlock(api.FleetBlock{Version: p.key(), Epoch: p.status.Epoch})
	p.record(string(p.status.Phase), string(api.FleetPhaseWithdrawing), reason, message, actor)
	p.status.Phase, p.status.Reason, p.status.Message = api.FleetPhaseWithdrawing, reason, message
}

// planWithdrawal tells every cluster that runs the version, or may begin it, to go back.
func (p *planner) planWithdrawal() {
	p.grant(api.FleetVerbWithdraw, 0, 0, p.clustersToReturn(p.needsWithdrawal))
	left := p.returnsOutstanding()
	switch {
	case p.granted || len(left) > 0:
		p.setPhase(api.FleetPhaseWithdrawing, p.status.Reason, p.withdrawalMessage(left))
	default:
		p.setPhase(api.FleetPhaseWithdrawn, p.status.Reason, fmt.Sprintf(
			"%s was withdrawn from all clusters, and no cluster gets it again%s; release another version, or type: sluice fleet unblock %s %s -n %s", p.key(), p.mixedText(), p.seen.Name, p.key(), p.seen.Namespace))
	}
}

// mixedText says that clusters have gone back to different versions, "" if all run the same one.
func (p *planner) mixedText() string {
	running := map[string][]string{}
	for _, name := range p.names {
		c := p.clusters[name]
		if c.member == nil || c.report == nil || c.hasLeft() {
			continue
		}
		if keys := c.report.Stable.Keys(); len(keys) > 0 {
			running[KeyText(keys[0])] = append(running[KeyText(keys[0])], name)
		}
	}
	if len(running) < 2 {
		return ""
	}
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(running)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", version, listNames(running[version])))
	}
	return "; the clusters run different versions now: " + strings.Join(parts, ", ")
}

func (p *planner) withdrawalMessage(left []string) string {
	if len(left) == 0 {
		return fmt.Sprintf("%s is withdrawn: its clusters are told to go back", p.key())
	}
	message := fmt.Sprintf("%s is withdrawn: %s: %s", p.key(), countText(len(left), "cluster goes back", "clusters go back"), listNames(left))
	stuck := p.clustersInNeed(func(c *cluster) bool { return slices.Contains(left, c.name) && p.stuck(c) })
	if len(stuck) == 0 {
		return message
	}
	return fmt.Sprintf("%s; of them, %s cannot, or take too long; see why: sluice fleet targets %s -n %s; bring %s back, or type: sluice fleet skip %[3]s CLUSTER -n %[4]s",
		message, listNames(stuck), p.seen.Name, p.seen.Namespace, agree(len(stuck), "it", "them"))
}

// stuck reports whether a cluster that was told to go back may need a person: it has failed, the hub has lost it, it waits for a person of its own, or it has taken
// as long as a release may.
func (p *planner) stuck(c *cluster) bool {
	return c.failed() || c.phase == api.FleetTargetUnknown || c.report != nil && c.report.AwaitsPerson || c.status.Since != nil && p.elapsed(c.status.Since.Time, p.spec.ProgressDeadline)
}

// planAbort takes back the clusters that are under way. Clusters that have completed keep the version.
func (p *planner) planAbort() {
	p.grant(api.FleetVerbAbort, 0, 0, p.clustersToReturn(p.needsAbort))
	message := "The release is aborted. Clusters that had completed keep the version"
	if left := p.returnsOutstanding(); len(left) > 0 {
		message = fmt.Sprintf("The release is aborted: %s not answered: %s", countText(len(left), "cluster has", "clusters have"), listNames(left))
	}
	p.setPhase(api.FleetPhaseAborted, p.status.Reason, message)
}

// clustersToReturn lists clusters for a grant that takes a version back: first the clusters of a grant of an older epoch, whose permits an
// executor may still be writing, because the next grant takes the place of that grant in the status.
func (p *planner) clustersToReturn(needs func(*cluster) bool) []string {
	var list []string
	if g := p.status.Grant; g != nil && p.outdated(g.Epoch) && forward(g.Verb) {
		for _, name := range g.Clusters {
			if c := p.clusters[name]; c != nil && c.member != nil && !c.grantSeen(g) {
				list = append(list, name)
			}
		}
	}
	for _, name := range p.clustersInNeed(needs) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func (p *planner) clustersInNeed(needs func(*cluster) bool) []string {
	var list []string
	for _, name := range p.names {
		if c := p.clusters[name]; c.member != nil && needs(c) {
			list = append(list, name)
		}
	}
	return list
}

// outdated reports whether forward permits of an epoch count no longer: those of an older release, and all of them while clusters go back.
func (p *planner) outdated(epoch int64) bool {
	if p.status.Verb == api.FleetVerbRelease {
		return epoch < p.status.Began
	}
	return epoch < p.status.Epoch
}

// grantSeen reports whether the target of a cluster has the permit of a grant, or a newer one.
func (c *cluster) grantSeen(g *api.FleetGrant) bool {
	return c.target != nil && !c.target.Permit.Number().Before(g.Number())
}

// needsWithdrawal reports whether a cluster runs a blocked version, or may begin it by an older permit, and was not told to go back.
func (p *planner) needsWithdrawal(c *cluster) bool { return p.versionToWithdraw(c) != "" }

// versionToWithdraw returns the blocked version from which a cluster is still to go back, "" for none.
func (p *planner) versionToWithdraw(c *cluster) string {
	if c.target != nil && c.target.Permit.Epoch == p.status.Epoch && c.target.Permit.Verb != api.FleetVerbAbort {
		return ""
	}
	found := ""
	for _, b := range p.status.Blocked {
		if !b.Unblocked && c.mayRun(b.Version) && (found == "" || b.Version == p.key()) {
			found = b.Version
		}
	}
	return found
}

// mayRun reports whether a cluster runs a version or may be under way to it, and was not told to go back from it.
func (c *cluster) mayRun(version string) bool {
	if c.target != nil && c.target.Permit.Version == version {
		return forward(c.target.Permit.Verb) || c.movedOn()
	}
	r := c.report
	return r != nil && (r.Stable.Named(version) ||
		r.Template.Named(version) && (r.State == api.FleetReportProgressing || r.State == api.FleetReportAtHold || r.Unpermitted != "" || r.Overridden != ""))
}

// needsAbort reports whether a cluster may be under way, but must not: by a permit of an older release, after a person has told the release to pass
// over it, or after it has failed by the clock of the hub. An overridden release goes on unless a person takes it back.
// A cluster must not begin a second time either, after its Rollout was deleted or has left the fleet.
func (p *planner) needsAbort(c *cluster) bool {
	if c.overridden() && p.status.Verb == api.FleetVerbRelease && c.phase != api.FleetTargetSkipped {
		return false
	}
	return c.target != nil && forward(c.target.Permit.Verb) && !c.completed() && !c.failed() &&
		(p.outdated(c.target.Permit.Epoch) || c.phase == api.FleetTargetSkipped || c.phase == api.FleetTargetFailed || c.hasLeft() && c.status.CompletedAt == nil)
}

// hasLeft reports whether the cluster has no governed Rollout any more.
func (c *cluster) hasLeft() bool {
	return c.phase == api.FleetTargetAbsent || c.phase == api.FleetTargetUngoverned
}

// returnsOutstanding lists the clusters that were told to go back in this epoch and have not.
func (p *planner) returnsOutstanding() []string {
	var left []string
	for _, name := range p.names {
		c := p.clusters[name]
		switch c.phase {
		case api.FleetTargetSkipped, api.FleetTargetLeft:
			continue
		}
		if c.target == nil || !c.goingBack() {
			continue
		}
		if permit := c.target.Permit; permit.Epoch == p.status.Epoch || permit.Verb == api.FleetVerbWithdraw && permit.Version == p.key() {
			left = append(left, name)
		}
	}
	return left
}

// listNames joins the first names, and says how many others there are.
func listNames(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s", strings.Join(names[:shown], ", "), countText(len(names)-shown, "other", "others"))
}

// countText returns a number with the words that agree with it: "1 cluster", "2 clusters".
func countText(n int, one, many string) string { return fmt.Sprintf("%d %s", n, agree(n, one, many)) }

// agree returns the form of a word that agrees with a number.
func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
