package planner

import (
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file is the gate of a Rollout that a fleet governs. Everything that brings in more of a new version asks permitted first: the beginning of a
// release, each step, a jump, a promotion and the completion. Stopping and going back never ask.

// permitSkew is how far the clocks of the hub and of a member may be apart.
const permitSkew = 2 * time.Minute

// expiredBlueGreen is how long after the end of its permit a blue-green release is aborted.
const expiredBlueGreen = time.Hour

// governed reports whether a FleetRollout governs the Rollout.
func (p *planner) governed() bool {
	return p.seen.Spec.Fleet != nil && p.status.Fleet != nil && p.status.Fleet.FleetRollout == *p.seen.Spec.Fleet
}

// readPermit takes in the permit that the executor has received, if it is newer than the one in the status.
func (p *planner) readPermit() {
	switch state := p.currentState(); {
	case p.seen.Spec.Fleet == nil:
		return
	case p.governed():
	case p.status.Fleet != nil && state != rollout.StateIdle && state != rollout.StateDisabled:
		return // leaveFleet ends the release first
	case p.unknownProblem() != nil:
		return // the version that serves is not known
	default:
		p.joinFleet()
	}
	f, permit := p.status.Fleet, p.seen.Permit
	for _, block := range p.seen.Blocked {
		f.Blocked = api.MergeFleetBlock(f.Blocked, block)
	}
	if permit == nil || !supersedes(*permit, f.Permit) {
		return
	}
	f.Permit = permit.DeepCopy()
	if used := f.Used; used != nil && used.Epoch == 0 && used.Failure != "" && used.Release == p.m.Epoch && permit.Verb == api.FleetVerbRelease {
		used.Epoch, used.Seq = permit.Epoch, permit.Seq // a user has aborted the release before its permit came
	}
	if permit.Verb == api.FleetVerbWithdraw {
		f.Blocked = api.MergeFleetBlock(f.Blocked, api.FleetBlock{Version: permit.Version, Epoch: permit.Epoch})
	}
}

// supersedes reports whether a permit is newer than the last one, or gives that one more time.
func supersedes(permit api.FleetPermit, last *api.FleetPermit) bool {
	switch {
	case last.Number().Before(permit.Number()):
		return true
	case last == nil || permit.Number() != last.Number() || permit.NotAfter == nil || last.NotAfter == nil:
		return false
	}
	return permit.NotAfter.After(last.NotAfter.Time)
}

// joinFleet begins to remember a fleet. A release under way ends as it would have, unless an executor of a version without fleets has dropped the
// status of a release that the fleet governs.
func (p *planner) joinFleet() {
	f := &api.RolloutFleetStatus{FleetRollout: *p.seen.Spec.Fleet}
	state := p.currentState()
	if before := p.status.Fleet; before != nil { // another FleetRollout
		f.Served = before.Served
	}
	switch used := p.seen.PermitUsed; {
	case used != api.PermitNumber{}:
		f.Used = &api.FleetPermitUse{Epoch: used.Epoch, Seq: used.Seq}
	case state.InStep() || state == rollout.StateFinalising:
		f.Override = &api.FleetOverride{Release: p.m.Epoch, Reason: "the release began before the Rollout joined the fleet"}
	}
	switch w := p.seen.Workload; {
	case w == nil || len(f.Served) > 0:
	case p.stableRevision() != nil && p.stableRevision().Revision != w.Revision:
		f.Served = []api.FleetVersion{{Revision: p.stableRevision().Revision}}
	case !w.Held && w.Observed && !p.rollsNatively():
		f.Served = []api.FleetVersion{w.Version}
	}
	p.status.Fleet = f
}

// refusal says why the fleet does not let a release go on: a reason of a report, and a sentence for users.
type refusal struct{ reason, message string }

// permitted reports whether the release may enter a step, or its completion after the last step. If it may, the release has used up the permit.
// Otherwise it waits.
func (p *planner) permitted(step int32) bool {
	if !p.governed() {
		return true
	}
	if refusal := p.fleetRefusal(step); refusal != nil {
		p.refused = refusal
		p.waitForEvent("%s", refusal.message)
		return false
	}
	return p.permitRecorded()
}

// permitRecorded reports whether the release under way has used up its permit, on record also outside of the status.
func (p *planner) permitRecorded() bool {
	if !p.governed() || !p.needsPermit() {
		return true
	}
	f := p.status.Fleet
	if used := f.Permit.Number(); p.seen.PermitUsed.Before(used) {
		p.addActions(rollout.RecordPermit{Permit: used})
		return false
	}
	f.Used = &api.FleetPermitUse{Epoch: f.Permit.Epoch, Seq: f.Permit.Seq, Release: p.m.Epoch, WorkloadUID: p.m.WorkloadUID, Revision: p.m.CanaryRevision}
	return true
}

// needsPermit reports whether the release goes on by permits only. A release that goes back to the version before needs none, unless the fleet has
// withdrawn that version once.
func (p *planner) needsPermit() bool {
	f := p.status.Fleet
	if p.m.RollbackReplicas > 0 || p.overridden() || p.seen.Workload == nil {
		return false
	}
	return len(f.Served) < 2 || p.seen.Workload.Revision != f.Served[1].Revision || p.seen.Workload.Revision == f.Served[0].Revision || p.onceWithdrawn(f.Served[1])
}

// onceWithdrawn reports whether the fleet has withdrawn a version, also if a user has unblocked it since.
func (p *planner) onceWithdrawn(version api.FleetVersion) bool {
	return slices.ContainsFunc(p.status.Fleet.Blocked, func(block api.FleetBlock) bool { return version.Named(block.Version) })
}

// overridden reports whether the release under way goes on without permits.
func (p *planner) overridden() bool {
	o := p.status.Fleet.Override
	return o != nil && o.Release == p.m.Epoch
}

// overrideFleet lets the release go on without permits to its end. A withdrawn version does not go on.
func (p *planner) overrideFleet(c api.Command) {
	f, last := p.status.Fleet, p.status.Fleet.Permit.Number()
	f.Override = &api.FleetOverride{Release: p.m.Epoch, Actor: c.Actor, Reason: c.Comment, Epoch: last.Epoch, Seq: last.Seq}
	p.kubeEvents = append(p.kubeEvents, rollout.KubeEvent{Warning: true, Reason: "FleetOverridden", Message: withComment("the release goes on without permits of its fleet, as asked by "+c.Actor, c.Comment)})
}

// fleetRefusal returns why the release may not enter a step, or complete if step is the one after the last. It returns nil if the fleet permits it.
func (p *planner) fleetRefusal(step int32) *refusal {
	if !p.governed() || p.seen.Workload == nil {
		return nil
	}
	f, version, steps := p.status.Fleet, p.templateVersion(), int32(len(p.seen.Spec.Steps))
	refuse := func(reason, format string, args ...any) *refusal {
		return &refusal{reason, fmt.Sprintf(format, args...)}
	}
	if key := p.blockedKey(version); key != "" && p.m.RollbackReplicas == 0 {
		if p.contested() {
			return refuse(api.FleetReasonBlocked, "the fleet has withdrawn %s, and %s has applied it again; pods of %s that are lost come back in it, so stop that client: kubectl get %s -n %s -o yaml --show-managed-fields",
				key, p.templateClient(), p.seen.Spec.Workload, p.seen.Spec.Workload.KubectlName(), p.seen.Namespace)
		}
		return refuse(api.FleetReasonBlocked, "the fleet has withdrawn %s; release another version, or type at the hub: sluice fleet unblock %s %s -n %s", key, f.FleetRollout.Name, key, f.FleetRollout.Namespace)
	}
	if !p.needsPermit() {
		return nil
	}
	switch permit, delivery := f.Permit, p.deliveryRefusal(); {
	case permit == nil:
		return refuse(api.FleetReasonAwaitingPermit, "%s%s", p.permitAwaited(), p.orderRefused())
	case p.permitOfAnother():
		return refuse(api.FleetReasonAwaitingPermit, "waiting for a permit of FleetRollout %s: the last one is for a Rollout of this name that was deleted%s", f.FleetRollout, p.orderRefused())
	case delivery != nil:
		return delivery
	case permit.Verb != api.FleetVerbRelease && permit.Verb != api.FleetVerbHold, !version.Named(permit.Version), p.permitRevision() != p.seen.Workload.Revision,
		p.permitRevision() != p.m.CanaryRevision:
		if permit.EndsFleet() {
			return refuse(api.FleetReasonAwaitingPermit, "%s, or remove spec.fleet from this Rollout", p.fleetEnded())
		}
		return refuse(api.FleetReasonAwaitingPermit, "waiting for a permit of FleetRollout %s: the last one is not for this version of the workload%s", f.FleetRollout, p.orderRefused())
	case p.permitUsedUp():
		return refuse(api.FleetReasonPermitUsed, "the release of this permit has ended without success in this cluster; to try again, type at the hub: sluice fleet retry %s CLUSTER -n %s",
			f.FleetRollout.Name, f.FleetRollout.Namespace)
	case permit.Verb == api.FleetVerbHold:
		return p.heldByFleet()
	case permit.PlanHash != p.seen.Spec.Hash:
		return refuse(api.FleetReasonPlanChanged, "the steps were changed after the permit was given; to go on with them, type at the hub: sluice fleet retry %s CLUSTER -n %s",
			f.FleetRollout.Name, f.FleetRollout.Namespace)
	case permit.HoldAt > 0 && step > min(permit.HoldAt, steps):
		return refuse(api.FleetReasonAtHold, "FleetRollout %s permits the release up to step %d", f.FleetRollout, min(permit.HoldAt, steps))
	case p.permitExpired():
		return p.expiredPermit()
	}
	return nil
}

// permitAwaited says which FleetRollout gives the permit, and that none does if spec.fleet names one that does not govern this Rollout.
func (p *planner) permitAwaited() string {
	of := p.status.Fleet.FleetRollout
	if own := (api.FleetReference{Namespace: p.seen.Namespace, Name: p.seen.Name}); of != own {
		return fmt.Sprintf("no hub gives a permit: spec.fleet names FleetRollout %s, and only FleetRollout %s governs this Rollout; correct spec.fleet", of, own)
	}
	return fmt.Sprintf("waiting for a permit of FleetRollout %s", of)
}

// heldByFleet is the refusal of a release that the hub holds.
func (p *planner) heldByFleet() *refusal {
	f := p.status.Fleet
	if f.Permit.EndsFleet() {
		return &refusal{api.FleetReasonAtHold, fmt.Sprintf("%s, or let this release end without permits: sluice fleet override %s -n %s --reason WHY", p.fleetEnded(), p.seen.Name, p.seen.Namespace)}
	}
	return &refusal{api.FleetReasonAtHold, fmt.Sprintf("FleetRollout %s holds the release", f.FleetRollout)}
}

func (p *planner) fleetEnded() string {
	return fmt.Sprintf("FleetRollout %s was deleted at the hub; create it again", p.status.Fleet.FleetRollout)
}

// permitOfAnother reports whether the last permit was given to a Rollout of the same name that was deleted since.
func (p *planner) permitOfAnother() bool {
	uid := p.status.Fleet.Permit.RolloutUID
	return uid != "" && uid != typesUID(p.seen.UID)
}

// permitExpired reports whether the time of the last permit is over.
func (p *planner) permitExpired() bool {
	end := p.status.Fleet.Permit.NotAfter
	return end != nil && p.now.After(end.Add(permitSkew))
}

func (p *planner) expiredPermit() *refusal {
	return &refusal{api.FleetReasonPermitExpired, fmt.Sprintf("the permit of FleetRollout %s has expired; see that this cluster reaches its hub", p.status.Fleet.FleetRollout)}
}

// orderRefused says why the last message of the hub counts for nothing, as the end of a sentence.
func (p *planner) orderRefused() string {
	if p.seen.OrderRefused == "" {
		return ""
	}
	return "; " + p.seen.OrderRefused
}

// permitUsedUp reports whether another release has used up the permit, or this one without success.
func (p *planner) permitUsedUp() bool {
	f := p.status.Fleet
	if f.Used == nil || f.Used.Number().Before(f.Permit.Number()) {
		return false
	}
	return f.Used.Release != p.m.Epoch || f.Used.WorkloadUID != p.m.WorkloadUID || f.Used.Revision != p.m.CanaryRevision || f.Used.Failure != ""
}

// permitsPauses reports whether the permit is the approval of the pause of the current step.
func (p *planner) permitsPauses() bool {
	if !p.governed() || p.status.Fleet.Permit == nil || !p.needsPermit() {
		return false
	}
	return p.status.Fleet.Permit.LocalPauses != api.FleetLocalPausesKeep
}

// skipAnalyses leaves out the analyses of a release in a cluster without users, whose metrics say nothing, and those that the permit names.
func (p *planner) skipAnalyses() {
	if !p.governed() || p.status.Fleet.Permit == nil || !p.needsPermit() {
		return
	}
	switch permit := p.status.Fleet.Permit; {
	case permit.NoTraffic:
		p.seen.Spec = p.seen.Spec.WithoutAnalyses()
	case len(permit.SkipAnalyses) > 0:
		p.seen.Spec = p.seen.Spec.WithoutTemplates(permit.SkipAnalyses)
	}
}

// retriedByHub reports whether the hub permits an aborted release once more, and begins it again.
func (p *planner) retriedByHub() bool {
	if !p.governed() || !p.needsPermit() || p.m.FinaliseReason == api.FinaliseRollback || p.fleetRefusal(1) != nil {
		return false
	}
	p.startFinalising(api.FinaliseRetry, "The release is retried, because the fleet permits it again")
	return true
}

// withdrawn reports whether the hub has withdrawn the version in the template, or the present one while there is a version to return to.
func (p *planner) withdrawn() bool {
	return p.governed() && p.seen.Workload != nil && (p.blockedKey(p.templateVersion()) != "" || p.revisionToReturnTo() != nil)
}

// templateVersion returns the names of the version in the template. If a user has rolled the workload back without its annotations, these still name
// the withdrawn version, and the Rollout knows the template by other names.
func (p *planner) templateVersion() api.FleetVersion {
	version := p.seen.Workload.Version
	if p.blockedKey(version) == "" {
		return version
	}
	for _, served := range p.status.Fleet.Served {
		if served.Revision == version.Revision && len(served.Keys()) > 0 {
			return served
		}
	}
	return version
}

// blockedKey returns the withdrawn name of a version, "" for none.
func (p *planner) blockedKey(version api.FleetVersion) string {
	for _, block := range p.status.Fleet.Blocked {
		if !block.Unblocked && version.Named(block.Version) {
			return block.Version
		}
	}
	return ""
}

// noteFailure records that the release under way has ended without success.
func (p *planner) noteFailure(to rollout.State, reason string) {
	if !p.governed() || to != rollout.StateAborted && (to != rollout.StateFinalising || p.m.FinaliseReason == api.FinaliseSuccess) {
		return
	}
	f := p.status.Fleet
	if to == rollout.StateAborted && (f.Used == nil || f.Used.Release != p.m.Epoch) { // before it has begun
		f.Used = &api.FleetPermitUse{Release: p.m.Epoch, WorkloadUID: p.m.WorkloadUID, Revision: p.m.CanaryRevision}
		if permit := f.Permit; permit != nil && permit.Verb == api.FleetVerbRelease && p.permitRevision() == p.m.CanaryRevision {
			f.Used.Epoch, f.Used.Seq = permit.Epoch, permit.Seq
		}
	}
	if f.Used != nil && f.Used.Release == p.m.Epoch && f.Used.Failure == "" {
		f.Used.Failure = reason
	}
}

// onlyUnpermittedRuns reports whether all pods run the new version already, although its release still waits for a permit.
func (p *planner) onlyUnpermittedRuns() bool {
	if !p.governed() || p.rolledBack() {
		return false
	}
	set := p.templateRevision()
	return set.Replicas > 0 && p.onlyRevisionWithPods(&set)
}

// noteRelease notes which version is released, and which one serves until then.
func (p *planner) noteRelease() {
	f := p.status.Fleet
	if f == nil {
		return
	}
	f.Releasing = p.templateVersion()
	if stable := p.stableRevision(); stable != nil && stable.Revision != f.Releasing.Revision {
		p.serve(p.versionOf(stable.Revision)) // perhaps it came while the Rollout was disabled
	}
}

// versionOf returns the names of a version of the workload, as far as the Rollout knows them.
func (p *planner) versionOf(revision string) api.FleetVersion {
	if version := p.templateVersion(); version.Revision == revision {
		return version
	}
	for _, version := range p.status.Fleet.Served {
		if version.Revision == revision {
			return version
		}
	}
	return api.FleetVersion{Revision: revision}
}

// noteVersions keeps the names of the version under way, which a user may change without a change of the template.
func (p *planner) noteVersions() {
	f, w := p.status.Fleet, p.seen.Workload
	if !p.governed() || w == nil {
		return
	}
	if p.currentState().Releasing() && w.Revision == p.m.CanaryRevision {
		f.Releasing = p.templateVersion()
	}
	for i, version := range f.Served { // a version from before the fleet is known by its template only
		if version.Revision == w.Revision && len(version.Keys()) == 0 {
			f.Served[i] = w.Version
		}
	}
}

// recordServed records the version that all pods run while no release is under way, and whether a permit has allowed it. A workload that is scaled to 0 has the
// version whose release has ended.
func (p *planner) recordServed() {
	if !p.governed() {
		return
	}
	f, w, pods := p.status.Fleet, p.seen.Workload, p.templateRevision().Replicas
	if !w.Observed || p.totalReplicas() > pods {
		return
	}
	known := len(f.Served) > 0 && f.Served[0].Revision == w.Revision
	allowed := f.Used != nil && f.Used.Revision == w.Revision && f.Used.Failure == "" || p.overridden() || len(f.Served) > 0 && !p.needsPermit() ||
		f.Permit != nil && f.Permit.Verb == api.FleetVerbRelease && p.permitRevision() == w.Revision
	if pods == 0 && (w.DesiredReplicas > 0 || !allowed) {
		return
	}
	switch {
	case allowed:
		f.Unpermitted = ""
	case known:
	case len(f.Served) == 0:
		f.Unpermitted = api.FleetUnpermittedFirstInstall
	case !slices.ContainsFunc(w.Revisions, func(set rollout.Revision) bool { return set.Revision == f.Served[0].Revision }):
		f.Unpermitted = api.FleetUnpermittedRecreated
	default:
		f.Unpermitted = api.FleetUnpermittedNotHeld
	}
	p.serve(p.templateVersion())
}

// serve makes a version the present one.
func (p *planner) serve(version api.FleetVersion) {
	f := p.status.Fleet
	f.Served = slices.DeleteFunc(f.Served, func(v api.FleetVersion) bool { return v.Revision == version.Revision })
	f.Served = slices.Insert(f.Served, 0, version)
	f.Served = f.Served[:min(len(f.Served), api.MaxServedVersions)]
}
