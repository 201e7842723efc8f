package fleet

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// obstacle is a reason against further permits.
type obstacle struct {
	phase           api.FleetPhase
	reason, message string
	// holds: clusters under way stop at their steps. Otherwise they go on under their permits.
	holds bool
}

const (
	// reasonPaused is the reason of a release that a person has paused.
	reasonPaused = "Paused"
	// reasonStarting is the reason of a release whose executor has still to hear members.
	reasonStarting = "Starting"
)

// paused reports whether a person has paused the release, by a command or in the spec.
func (p *planner) paused() bool { return p.status.Paused || p.seen.Paused }

// SpecResumeCommand ends the pause in spec.paused of a FleetRollout.
func SpecResumeCommand(name, namespace string) string {
	return fmt.Sprintf(`kubectl patch fleetrollout %s -n %s --type=merge -p '{"spec":{"paused":false}}'`, name, namespace)
}

// withdrawOnFailure takes the version back in all clusters if a failure asks for it. It reports whether it did.
func (p *planner) withdrawOnFailure() bool {
	reason, message := p.withdrawalReason()
	if reason == "" {
		return false
	}
	p.beginWithdrawal(reason, message, "")
	for _, name := range p.names {
		p.readCluster(p.clusters[name])
	}
	p.planWithdrawal()
	return true
}

func (p *planner) withdrawalReason() (reason, message string) {
	if p.spec.OnRejection == api.FleetFailureWithdraw && p.rejection() != nil {
		return "Rejected", "The release was rejected by " + p.rejection().Actor
	}
	if failed := p.failedByMetrics(); p.spec.OnMetrics == api.FleetFailureWithdraw && len(failed) > 0 {
		return api.FleetReasonMetrics, "Metrics failed in " + listNames(failed)
	}
	if over := p.failedBudget(); p.spec.OnBudget == api.FleetFailureWithdraw && over != "" {
		return "BudgetExceeded", over
	}
	return "", ""
}

// obstacle returns the first reason against further permits in the order of precedence, nil for none.
func (p *planner) obstacle() *obstacle {
	name, ns := p.seen.Name, p.seen.Namespace
	switch {
	case p.unplanned:
		return &obstacle{api.FleetPhaseStalled, "InvalidPlan", p.seen.SpecProblem, true}
	case p.blocked(p.key()):
		return &obstacle{api.FleetPhaseStalled, "Blocked", fmt.Sprintf(
			"%s was withdrawn before; release another version, or type: sluice fleet unblock %s %s -n %s", p.key(), name, p.key(), ns), true}
	case p.status.Restored:
		return &obstacle{api.FleetPhaseStalled, "HubRestored", fmt.Sprintf(
			"Members have newer permits than this hub remembers; compare them (sluice fleet targets %s -n %s), then type: sluice fleet resume %[1]s -n %[2]s", name, ns), false}
	case p.rejection() != nil:
		return &obstacle{api.FleetPhasePaused, "Rejected", fmt.Sprintf(
			"The release was rejected by %s; type one of: sluice fleet rollback, abort or approve %s -n %s", p.rejection().Actor, name, ns), true}
	}
	if failed := p.failedByMetrics(); len(failed) > 0 {
		return &obstacle{api.FleetPhasePaused, api.FleetReasonMetrics, fmt.Sprintf(
			"Metrics failed in %s; type one of: sluice fleet rollback %s -n %s, or retry or skip with the cluster", listNames(failed), name, ns), true}
	}
	if over := p.failedBudget(); over != "" {
		return &obstacle{api.FleetPhasePaused, "BudgetExceeded", fmt.Sprintf(
			"%s; type one of: sluice fleet rollback %s -n %s, or retry or skip with the cluster", over, name, ns), true}
	}
	if p.cutOff {
		return &obstacle{api.FleetPhaseStalled, "HubCutOff", "More than half of the members are silent since about the same time; check the network and the NATS of the hub", false}
	}
	if over := p.reachBudget(); over != "" {
		return &obstacle{api.FleetPhaseStalled, "BudgetExceeded", fmt.Sprintf(
			"%s; bring clusters back, or pass over them: sluice fleet skip %s CLUSTER -n %s", over, name, ns), false}
	}
	switch {
	case p.seen.Paused && !p.status.Paused:
		return &obstacle{api.FleetPhasePaused, reasonPaused, "The release is paused by spec.paused; go on with: " + SpecResumeCommand(name, ns), true}
	case p.status.Paused:
		return &obstacle{api.FleetPhasePaused, reasonPaused, fmt.Sprintf("The release is paused; go on with: sluice fleet resume %s -n %s", name, ns), true}
	case p.starting && (p.corrected() || p.status.Phase == api.FleetPhaseSucceeded && p.allPassed()): // clusters that follow wait, and the release is over
		return &obstacle{p.status.Phase, p.status.Reason, p.status.Message, false}
	case p.starting:
		return &obstacle{api.FleetPhaseProgressing, reasonStarting, "This hub has just started, and waits until it has heard its members", false}
	}
	return nil
}

// corrected reports whether another executor has written the phase since this one has said that it starts. The other one has heard the members, and would
// write the phase again and again.
func (p *planner) corrected() bool {
	said := func(t api.FleetTransition) bool {
		return t.Reason == reasonStarting && !t.Time.Time.Before(p.seen.Started)
	}
	return p.status.Reason != reasonStarting && p.status.TransitionSeq == p.seen.Status.TransitionSeq && slices.ContainsFunc(p.seen.Status.Transitions, said)
}

// rejection returns the last decision of this release if it is a rejection.
func (p *planner) rejection() *api.FleetApproval {
	if n := len(p.status.Approvals); n > 0 && p.status.Approvals[n-1].Epoch >= p.status.Began && p.status.Approvals[n-1].Decision == api.DecisionReject {
		return &p.status.Approvals[n-1]
	}
	return nil
}

func (p *planner) failedByMetrics() []string {
	var failed []string
	for _, name := range p.names {
		if c := p.clusters[name]; c.phase == api.FleetTargetFailed && c.reason == api.FleetReasonMetrics && !p.retried(c) {
			failed = append(failed, name)
		}
	}
	return failed
}

// retried reports whether a person has told the cluster to try again, and it has no newer permit yet.
func (p *planner) retried(c *cluster) bool { return slices.Contains(p.status.Retries, c.name) }

// countsAsFailed reports whether a cluster uses the budget of failed ones.
func (p *planner) countsAsFailed(c *cluster) bool {
	if p.retried(c) {
		return false
	}
	switch c.phase {
	case api.FleetTargetFailed, api.FleetTargetWithdrawn, api.FleetTargetNoWayBack, api.FleetTargetDiverged, api.FleetTargetUnpermitted:
		return true
	case api.FleetTargetCompleted:
		return c.unhealthy && !p.allPassed()
	}
	return false
}

// allPassed reports whether the last wave has passed.
func (p *planner) allPassed() bool {
	return len(p.status.Waves) == len(p.spec.Waves) && waveEnded(*p.wave())
}

// countsAsUnreachable reports whether a cluster uses the budget of unreachable ones.
func (c *cluster) countsAsUnreachable() bool {
	return c.phase == api.FleetTargetDeferred && c.reason != reasonCordoned
}

// failedBudget describes the first budget of failed clusters that is exceeded, "" for none.
func (p *planner) failedBudget() string {
	var all []string
	for i, w := range p.status.Waves {
		failed := p.clustersOf(w, p.countsAsFailed)
		if n, limit := len(failed), p.spec.Waves[i].Failed.RoundDown(sizeOf(w)); n > limit {
			return fmt.Sprintf("%s of wave %s %s failed (%s), and %d may", countText(n, "cluster", "clusters"), w.Name, agree(n, "has", "have"), listNames(failed), limit)
		}
		all = append(all, failed...)
	}
	if n := len(all); p.spec.MaxFailed >= 0 && n > p.spec.MaxFailed {
		return fmt.Sprintf("%s failed (%s), and %d may in the whole release", countText(n, "cluster has", "clusters have"), listNames(all), p.spec.MaxFailed)
	}
	return ""
}

// reachBudget describes the first budget of lost clusters that the wave under way exceeds, "" for none.
func (p *planner) reachBudget() string {
	if !p.waveRuns() {
		return ""
	}
	w, spec := *p.wave(), p.spec.Waves[p.status.Wave-1]
	lost := func(c *cluster) bool { return c.phase == api.FleetTargetUnknown }
	if n, limit := p.countClusters(w, lost), spec.Unknown.RoundDown(sizeOf(w)); n > limit {
		return fmt.Sprintf("%s of wave %s %s lost with a permit, and %d may be", countText(n, "cluster", "clusters"), w.Name, agree(n, "was", "were"), limit)
	}
	if n, limit := p.countClusters(w, (*cluster).countsAsUnreachable), spec.Unreachable.RoundDown(sizeOf(w)); n > limit {
		return fmt.Sprintf("%s of wave %s %s deferred, and %d may be", countText(n, "cluster", "clusters"), w.Name, agree(n, "is", "are"), limit)
	}
	return ""
}

func (p *planner) countClusters(w api.FleetWaveStatus, counts func(*cluster) bool) int {
	return len(p.clustersOf(w, counts))
}

// clustersOf lists the clusters of a wave that count.
func (p *planner) clustersOf(w api.FleetWaveStatus, counts func(*cluster) bool) []string {
	var list []string
	for _, name := range w.Clusters {
		if counts(p.clusters[name]) {
			list = append(list, name)
		}
	}
	return list
}

// needsHold reports whether a cluster may go forward under its permit.
func (p *planner) needsHold(c *cluster) bool {
	return c.underWay() && p.permitted(c) && c.target.Permit.Verb == api.FleetVerbRelease
}

// readConnections finds out whether the executor has still to hear members after its start, and whether the hub has lost more than half of its
// members within a minute. Such a loss lasts until half of them are heard again.
func (p *planner) readConnections() {
	known, lost, recently := 0, 0, 0
	for _, name := range p.names {
		m := p.clusters[name].member
		if m == nil {
			continue
		}
		if _, reported := p.seen.Reports[name]; m.Ready && (m.LastSeen.IsZero() || !reported && p.clusters[name].target != nil) {
			p.starting = p.starting || !p.elapsed(p.seen.Started, startupWait)
		}
		if m.LastSeen.IsZero() && p.status.CutOffSince == nil {
			continue
		}
		known++
		if m.silent(p.now) {
			lost++
			if !m.silent(p.now.Add(-cutOffWindow)) {
				recently++
			}
		}
	}
	switch {
	case p.status.CutOffSince == nil && known > 1 && 2*recently > known:
		p.status.CutOffSince = new(p.microNow())
	case p.status.CutOffSince != nil && 2*lost <= known:
		p.status.CutOffSince = nil
	}
	p.cutOff = p.status.CutOffSince != nil
}
