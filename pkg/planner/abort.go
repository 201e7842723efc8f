package planner

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// abortRelease aborts the release: traffic returns at once, and the executor still holds the change. An aborted rollback in batches becomes a
// rollback at once, because its version is the stable version.
func (p *planner) abortRelease(reason api.FinaliseReason, why, message, actor string) {
	p.endRuns()
	if p.m.RollbackReplicas > 0 {
		p.startFinalising(api.FinaliseRollback, message+": all pods go back to the stable version at once")
		return
	}
	p.m.FinaliseReason = reason
	p.enterState(rollout.StateAborted, why, message, actor)
}

// planAborted keeps all traffic on the stable version, and reports when its Services reach no ready pod.
func (p *planner) planAborted() {
	p.revertAbortedRelease()
	if service, of := p.unreachedService(); of.UnreachableReason != "" && !p.seen.Spec.AllowUnreachable && p.currentState() == rollout.StateAborted && p.held == nil && len(p.actions) == 0 {
		p.holdFor(p.stableUnreachable(service, of))
	}
}

// revertAbortedRelease restores the routes and deletes the canary after a delay. Then it waits for another version, a rollback or a retry. With the
// reason Rollback, it restores the stable template of the workload instead of waiting.
func (p *planner) revertAbortedRelease() {
	switch {
	case p.seen.Spec.Disabled && !p.templateRestored():
		return
	case p.endInterruptedRelease():
		return
	case p.newVersion():
		p.startFinalising(api.FinaliseContinuous, "Workload is continuous release")
		return
	case p.retriedByHub():
		return
	case !p.ensureHeld() || !p.prepareScaleFromZero() || !p.routesRestored():
		return
	case p.m.FinaliseReason == api.FinaliseRollback:
		p.templateRestored()
		return
	}
	if !p.podsRolledBack() || !p.surgeRemoved() || p.isBlueGreen() && !p.autoscalersRestored() {
		return
	}
	if !p.imagesDelivered() {
		return
	}
	if c := p.seen.Canary; c != nil && c.Ours && !c.Deleting {
		if gone := p.stateSince().Add(p.seen.Spec.AbortDelay); p.now.Before(gone) {
			p.waitUntil(gone, "")
			return
		}
	}
	if p.canaryRemoved() && p.canaryServiceRemoved() {
		p.waitForEvent("")
	}
}

// restoreAbortedState reports whether to return to the aborted state. It does if an aborted release was given up only because its workload was
// missing for a moment. No user has retried this release, so the executor neither restarts it nor releases the workload. All tasks that were due
// before are due again. It does not return if the stable revision is gone, because then the executor has no version to restore.
func (p *planner) restoreAbortedState() bool {
	if !p.abandonedAfterAbort() || p.workloadGone() || !p.seen.Workload.Held || p.rolledBack() || p.newVersion() || p.stableRevision() == nil {
		return false
	}
	reason, message, actor := "Aborted", fmt.Sprintf("step %d of %d: aborted", p.m.Step, len(p.seen.Spec.Steps)), ""
	for t := range p.stateTransitions() {
		if rollout.State(t.To) == rollout.StateAborted {
			reason, message, actor = t.Reason, t.Message, t.Actor
			break
		}
	}
	p.m.FinaliseReason, p.m.Finalise = api.FinaliseAborted, "" // a person decides about it now, even if metrics decided before
	p.enterState(rollout.StateAborted, reason, message, actor)
	return true
}

// abandonedAfterAbort reports whether the latest release was aborted, and then given up because its workload was missing.
func (p *planner) abandonedAfterAbort() bool {
	for t := range p.stateTransitions() {
		switch to := rollout.State(t.To); {
		case to.InStep() || to == rollout.StateInitializing || to == rollout.StateAborted:
			return false
		case rollout.State(t.From) == rollout.StateAborted:
			return t.Reason == string(api.FinaliseWorkloadGone)
		}
	}
	return false
}

// templateRestored reports whether the workload's template is no longer the aborted version. It restores the stable template once traffic has left.
// The executor must not release the workload with the aborted version.
func (p *planner) templateRestored() bool {
	if p.workloadGone() || p.rolledBack() || p.newVersion() {
		return true
	}
	if !p.routesRestored() {
		return false
	}
	if p.restoreTemplate(p.stableRevision()) {
		return false
	}
	if p.seen.Deleting || p.seen.Spec.Disabled {
		return true // no pods of the stable version exist any more, so the executor has no template to restore
	}
	p.holdFor(p.stableMissing())
	return false
}

// restoreTemplate gives the workload the template of a revision again. It reports whether the revision exists.
func (p *planner) restoreTemplate(of *rollout.Revision) bool {
	if of == nil {
		return false
	}
	restore := rollout.RestoreTemplate{Workload: p.seen.Spec.Workload, Hash: of.Hash}
	if p.status.Fleet != nil {
		restore.Version = new(p.versionOf(of.Revision).Version)
	}
	p.addActions(restore)
	p.commitFirst = true // a planner that sees the stable template would take it for a rollback by the owner
	return true
}

// abortMessage says why the release was aborted, where requests go, and what to do next. The condition keeps the reason as long as the abort lasts.
func (p *planner) abortMessage() string {
	traffic, next := p.trafficAfterAbort(), p.afterAbort()
	if c := p.findCondition(api.ConditionProgressing); c != nil && c.Reason == api.ReasonAborted {
		for _, said := range []string{rollout.TrafficUnready, rollout.TrafficStable, rollout.TrafficReturns, rollout.TrafficUnserved} {
			if before, _, found := strings.Cut(c.Message, said); found {
				return before + traffic + " " + next
			}
		}
		return c.Message
	}
	why := "the release was aborted"
	for t := range p.stateTransitions() {
		if rollout.State(t.To) == rollout.StateAborted && t.Message != "" {
			why = t.Message
			break
		}
	}
	return fmt.Sprintf("Stopped at %s %s %s", rollout.EndSentence(why), traffic, next)
}

// afterAbort says what to do after an abort.
func (p *planner) afterAbort() string {
	f, blocked := p.status.Fleet, ""
	if p.governed() && p.seen.Workload != nil {
		blocked = p.blockedKey(p.templateVersion())
	}
	switch {
	case p.m.FinaliseReason == api.FinaliseRollback:
		return "The workload gets its stable version back."
	case blocked != "":
		return fmt.Sprintf("Release another version, or allow this one again at the hub: sluice fleet unblock %s %s -n %s", f.FleetRollout.Name, blocked, f.FleetRollout.Namespace)
	case p.governed() && p.needsPermit():
		return fmt.Sprintf("Release another version, roll the workload back, or try again from the hub: sluice fleet retry %s CLUSTER -n %s", f.FleetRollout.Name, f.FleetRollout.Namespace)
	}
	return fmt.Sprintf("Release another version, roll the workload back, or try again: sluice retry %s -n %s", p.seen.Name, p.seen.Namespace)
}

// trafficAfterAbort says where requests go after an abort.
func (p *planner) trafficAfterAbort() string {
	w := p.seen.Workload
	if w == nil {
		return rollout.TrafficUnready
	}
	_, others := p.splitRevisions()
	unreached, _ := p.unreachedService()
	switch {
	case w.ScaledDown, !p.pinnedToStable() && len(others) > 0: // the other versions serve as well
		return rollout.TrafficReturns
	case unreached != "":
		return rollout.TrafficUnserved
	case !p.pinnedToStable() && p.seen.Canary.ReadyPods() > 0: // the canary serves as well
		return rollout.TrafficReturns
	case p.stableReady() == 0:
		return rollout.TrafficUnready
	}
	return rollout.TrafficStable
}
