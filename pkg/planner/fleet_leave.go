package planner

import (
	"cmp"
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file takes versions back by order of the hub, keeps a version out that has failed in this cluster, and gives the stable template back when the Rollout leaves its fleet in the middle of a release.

// followFleet takes a version back if the hub has withdrawn it or aborts its release, or if the Rollout leaves its fleet. It reports whether it did.
func (p *planner) followFleet() bool {
	if p.status.Fleet == nil {
		return false
	}
	if p.workloadGone() { // or it was created again, and the state machine adopts it first
		return p.leaveFleet()
	}
	return p.governed() && (p.withdrawVersion() || p.abortForFleet() || p.abortExpired()) || p.leaveFleet()
}

// withdrawVersion takes back a version that the hub has withdrawn: the one under way, or the one that all pods run.
func (p *planner) withdrawVersion() bool {
	f, state := p.status.Fleet, p.currentState()
	if p.m.RollbackReplicas > 0 || p.finalisingFor(api.FinaliseWithdrawn) {
		return false
	}
	releasing, present := p.blockedKey(f.Releasing), ""
	if p.revisionToReturnTo() != nil { // otherwise, only a release of another version leads away from the present one
		present = p.presentBlockedKey()
	}
	begun := state.InStep() || state == rollout.StateInitializing && p.earlyPods().Replicas > 0
	switch {
	case begun && !p.rolledBack() && cmp.Or(releasing, present) != "":
		reason := api.FinaliseAborted
		if !p.inPlace() && p.earlyPods().Replicas > 0 { // only the controller of the workload can take them back
			reason = api.FinaliseRollback
		}
		p.abortRelease(reason, "Withdrawn", fmt.Sprintf("step %d of %d: the fleet has withdrawn %s", p.m.Step, len(p.seen.Spec.Steps), cmp.Or(releasing, present)), rollout.FleetActor)
		return true
	case p.finalisingFor(api.FinaliseSuccess) && releasing != "" && !p.rolledBack():
		return p.restoreTemplate(p.stableRevision())
	case p.finalisingFor(api.FinaliseRollback) && !p.rolledBack() && (p.blockedKey(p.templateVersion()) != "" || p.templateFailed()):
		return p.restoreTemplate(p.stableRevision()) // a client has applied it again while its pods go
	case present != "" && (state == rollout.StateIdle && p.seen.Workload.Adopted || state == rollout.StateInitializing || state == rollout.StateAborted && p.onlyStableRuns()):
		good := p.revisionToReturnTo()
		p.endRuns()
		p.m.StableRevision, p.m.CanaryRevision, p.m.CanaryHash = good.Hash, good.Revision, good.Hash
		p.startFinalising(api.FinaliseWithdrawn, fmt.Sprintf("the fleet has withdrawn %s, and the workload goes back to the version before", present))
		return true
	}
	return false
}

// templateFailed reports whether the template is the one whose release has failed in this cluster, without a newer permit of the hub.
func (p *planner) templateFailed() bool {
	f := p.status.Fleet
	used := f.Used
	return used != nil && used.Failure != "" && used.Revision == p.seen.Workload.Revision && f.Permit != nil && !used.Number().Before(f.Permit.Number())
}

// presentBlockedKey returns the withdrawn name of the version that all pods run, "" for none.
func (p *planner) presentBlockedKey() string {
	if served := p.status.Fleet.Served; len(served) > 0 {
		return p.blockedKey(served[0])
	}
	return ""
}

// revisionToReturnTo returns the revision to which the workload goes back from its present version; nil if none exists any more.
func (p *planner) revisionToReturnTo() *rollout.Revision {
	if p.presentBlockedKey() == "" {
		return nil
	}
	return p.goodRevision(p.status.Fleet.Served[0].Revision)
}

// onlyStableRuns reports whether nothing of a new version is left: no pods, no canary and no routes.
func (p *planner) onlyStableRuns() bool {
	_, others := p.splitRevisions()
	return len(others) == 0 && p.seen.Canary == nil && !slices.ContainsFunc(p.seen.Routes, func(r rollout.Route) bool { return r.Shaped })
}

// goodRevision returns the revision of the newest version that all pods have run and that is not withdrawn, other than one version; nil if none exists
// any more.
func (p *planner) goodRevision(other string) *rollout.Revision {
	sets := p.seen.Workload.Revisions
	for _, version := range p.status.Fleet.Served {
		if version.Revision == other || p.blockedKey(version) != "" {
			continue
		}
		if at := slices.IndexFunc(sets, func(set rollout.Revision) bool { return set.Revision == version.Revision && !set.Deleting }); at >= 0 {
			return &sets[at]
		}
	}
	return nil
}

// returning reports whether the workload goes back from a withdrawn version and does not have its good template yet.
func (p *planner) returning() bool {
	return p.finalisingFor(api.FinaliseWithdrawn) && !p.workloadGone() && !p.rolledBack()
}

// redirectWithdrawal gives the good template back as often as a client applies another one, until no pod of another version is left.
func (p *planner) redirectWithdrawal() bool {
	switch {
	case p.workloadGone():
		p.startFinalising(api.FinaliseWorkloadGone, "the workload was deleted during its release")
	case !p.rolledBack() && p.routesRestored():
		if !p.restoreTemplate(p.stableRevision()) {
			p.holdFor(p.stableMissing())
		}
	case !p.rolledBack():
	case p.seen.Spec.Disabled:
		p.startFinalising(api.FinaliseDisabled, "Disabling rollout, release resources")
	default:
		return false
	}
	return true
}

// abortForFleet aborts a release under way if the hub says so.
func (p *planner) abortForFleet() bool {
	f := p.status.Fleet
	if f.Permit == nil || f.Permit.Verb != api.FleetVerbAbort || !p.currentState().InStep() || p.rolledBack() {
		return false
	}
	if o := f.Override; p.overridden() && !o.Number().Before(f.Permit.Number()) || !p.overridden() && !p.needsPermit() {
		return false
	}
	p.abortRelease(api.FinaliseAborted, "Aborted", fmt.Sprintf("step %d of %d: aborted by FleetRollout %s", p.m.Step, len(p.seen.Spec.Steps), f.FleetRollout), rollout.FleetActor)
	return true
}

// abortExpired aborts a blue-green release whose permit is over for long. Until then, its pods are doubled and its autoscalers are off.
func (p *planner) abortExpired() bool {
	permit := p.status.Fleet.Permit
	if !p.isBlueGreen() || !p.currentState().InStep() || p.rolledBack() || !p.needsPermit() || permit == nil || permit.NotAfter == nil {
		return false
	}
	if over := permit.NotAfter.Add(expiredBlueGreen); p.now.Before(over) {
		p.wakeAt(over)
		return false
	}
	p.abortRelease(api.FinaliseAborted, api.FleetReasonPermitExpired, fmt.Sprintf("step %d of %d: the permit of FleetRollout %s has expired, and a blue-green release doubles the pods",
		p.m.Step, len(p.seen.Spec.Steps), p.status.Fleet.FleetRollout), rollout.FleetActor)
	return true
}

// leaveFleet ends a release that its owner takes out of the fleet: the Rollout is deleted or disabled, or names another FleetRollout or none. The
// workload gets its stable template back, and never the new one. At rest, it forgets the fleet.
func (p *planner) leaveFleet() bool {
	state := p.currentState()
	switch leaves := p.seen.Deleting || p.seen.Spec.Disabled || !p.governed(); {
	case !leaves:
	case p.overridden() && p.governed(): // it ends as the release of any other Rollout
	case (state.InStep() || state == rollout.StateInitializing) && !p.workloadGone() && !p.rolledBack() && !p.newVersion():
		p.endRuns()
		p.m.FinaliseReason, p.m.RollbackReplicas = api.FinaliseRollback, 0
		p.enterState(rollout.StateAborted, "LeftFleet", "the Rollout leaves its fleet during a release, and the workload gets its stable version back", "")
		return true
	case state == rollout.StateAborted && p.m.FinaliseReason != api.FinaliseRollback:
		p.m.FinaliseReason = api.FinaliseRollback
	case !p.governed() && (state == rollout.StateIdle || state == rollout.StateDisabled):
		p.status.Fleet = nil
	}
	return false
}
