package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// finalisingTasks returns the tasks of finalising in order (contract 2.5). A success first moves all traffic to a Service that selects every pod. A
// rollback first takes traffic off the canary, and then deletes its pods. Disabling and deleting follow the order of a success, with one exception.
// If the canary's version is no longer wanted, or not wanted yet, its pods go first: they must not get into a narrowed stable Service when it opens.
func (p *planner) finalisingTasks() []api.FinalisingStep {
	switch reason := p.m.FinaliseReason; {
	case p.isBlueGreen() && (reason == api.FinaliseSuccess || reason == api.FinaliseRollback):
		return p.blueGreenTasks()
	case reason == api.FinaliseRollback:
		return []api.FinalisingStep{
			api.FinalisingRouteTrafficToStable, api.FinalisingResumeWorkload, api.FinalisingReleaseWorkloadControl,
			api.FinalisingRestoreStableService, api.FinalisingRemoveCanaryService,
		}
	case p.endsForNextRelease():
		return []api.FinalisingStep{
			api.FinalisingRouteTrafficToStable, api.FinalisingReleaseWorkloadControl, api.FinalisingRemoveCanaryService,
		}
	case reason == api.FinaliseWithdrawn || reason != api.FinaliseSuccess && (p.workloadGone() || p.newVersion() && p.anyPinned() || p.staysPaused()):
		return []api.FinalisingStep{
			api.FinalisingRouteTrafficToStable, api.FinalisingReleaseWorkloadControl, api.FinalisingRestoreStableService,
			api.FinalisingRemoveCanaryService, api.FinalisingResumeWorkload,
		}
	}
	return []api.FinalisingStep{
		api.FinalisingRestoreStableService, api.FinalisingRouteTrafficToStable, api.FinalisingRemoveCanaryService,
		api.FinalisingResumeWorkload, api.FinalisingReleaseWorkloadControl,
	}
}

func (p *planner) finalisingFor(reason api.FinaliseReason) bool {
	return p.currentState() == rollout.StateFinalising && p.m.FinaliseReason == reason
}

func (p *planner) startFinalising(reason api.FinaliseReason, message string) {
	p.m.FinaliseReason = reason
	p.m.Finalise = string(p.finalisingTasks()[0])
	p.enterState(rollout.StateFinalising, string(reason), message, "")
}

// planFinalising works through the tasks in order, and begins with the first task each time. A task is done when the observed state shows it. So the
// planner detects tasks that a crash interrupted, that another client did, or that were undone.
func (p *planner) planFinalising() {
	if p.redirectFinalising() || p.nextReleaseFollows() && !p.ensureHeld() {
		return
	}
	for _, task := range p.finalisingTasks() {
		p.m.Finalise = string(task)
		if !p.taskDone(task) {
			return
		}
	}
	if (p.m.FinaliseReason == api.FinaliseRollback || p.m.FinaliseReason == api.FinaliseWithdrawn) && !p.workloadGone() && !p.workloadSettled() {
		return
	}
	p.completeFinalising()
}

// nextReleaseFollows reports whether another release follows, and the executor holds its change until then.
func (p *planner) nextReleaseFollows() bool {
	return p.endsForNextRelease() && !p.workloadGone()
}

// endsForNextRelease reports whether this release ends because another release follows.
func (p *planner) endsForNextRelease() bool {
	switch p.m.FinaliseReason {
	case api.FinaliseContinuous, api.FinaliseSuperseded, api.FinaliseRetry, api.FinaliseRollbackInBatch:
		return true
	}
	return false
}

// redirectFinalising changes the reason of finalising if a stronger reason has come up.
func (p *planner) redirectFinalising() bool {
	switch reason := p.m.FinaliseReason; {
	case reason == api.FinaliseDeleting || reason == api.FinaliseDisabled:
		return false
	case reason == api.FinaliseWithdrawn:
		return p.redirectWithdrawal()
	case p.seen.Spec.Disabled:
		p.startFinalising(api.FinaliseDisabled, "Disabling rollout, release resources")
	case reason == api.FinaliseWorkloadGone && p.workloadGone():
		return false
	case reason == api.FinaliseWorkloadGone && !p.rolledBack():
		// The workload was missing only for a moment. To release it would promote a version without all its approvals.
		p.startFinalising(api.FinaliseContinuous, "the workload is there again, and its release starts over")
	case p.workloadGone():
		p.startFinalising(api.FinaliseWorkloadGone, "the workload was deleted during its release")
	case reason == api.FinaliseWorkloadGone, reason == api.FinaliseSuccess && p.newVersion() && p.rolledBack():
		p.rollBack()
	case reason == api.FinaliseSuccess && p.newVersion() && p.workloadSurged():
		// No controller creates more pods of the approved version. The executor cannot either, because the workload has no ReplicaSets.
		p.startFinalising(api.FinaliseSuperseded, "a newer version came before the one that was agreed to had the workload to itself; it is released from the stable version")
	case reason == api.FinaliseSuccess && p.newVersion() && p.stableStillComplete():
		p.startFinalising(api.FinaliseSuperseded, "a newer version came before all pods of the one that was agreed to were ready; it is released from the stable version")
	case reason == api.FinaliseRetry && p.rolledBack() && !p.rollingBackInBatches():
		p.rollBack() // the owner rolled back during the retry
	case reason == api.FinaliseRollback && !p.rolledBack():
		// The remaining pods of the rejected version must not get into the stable Service. They go while the next release begins.
		p.startFinalising(api.FinaliseSuperseded, "Workload is continuous release")
	default:
		return false
	}
	return true
}

func (p *planner) taskDone(task api.FinalisingStep) bool {
	switch task {
	case api.FinalisingRouteTrafficToNew:
		return p.routedToNew()
	case api.FinalisingRestoreStableService:
		return p.serviceRestored()
	case api.FinalisingRouteTrafficToStable:
		return p.stableTakesOver() && p.routesRestored()
	case api.FinalisingRemoveCanaryService:
		return p.canaryServiceRemoved()
	case api.FinalisingResumeWorkload:
		return p.workloadResumed()
	case api.FinalisingReleaseWorkloadControl:
		return p.canaryRemoved() && p.blueGreenReleased()
	}
	return true
}

// workloadResumed reports whether the held fields of the workload are restored. After a success, it also waits until the new version runs everywhere.
// It does not release a newer version that arrived meanwhile: that version stays held for a release of its own.
func (p *planner) workloadResumed() bool {
	w := p.seen.Workload
	if p.workloadGone() {
		return true
	}
	if p.supersededVersion() {
		return !p.isBlueGreen() || w.UpdateMechanism != rollout.MechanismRollingUpdate || p.ensureOnlyNewPods()
	}
	if p.m.FinaliseReason == api.FinaliseRollback && !p.rolledBackPodsGone() {
		return false
	}
	if w.AlteredByRelease() {
		p.resumeWorkload()
		return false
	}
	if p.m.FinaliseReason == api.FinaliseSuccess && w.ScaledDown && w.OwnerPaused && (w.Updated < w.SpecReplicas || w.Total > w.Updated) {
		p.holdFor(p.ownerPaused()) // its controller would replace the canary's pods with older pods
		return false
	}
	if !p.replicasHandedBack() {
		return false
	}
	if p.m.FinaliseReason != api.FinaliseSuccess {
		return true
	}
	if !p.workloadSettled() {
		return false
	}
	if w.Available < w.FullCapacity() {
		p.waitForEvent("waiting for the workload to be available: %d of %d pods are", w.Available, w.DesiredReplicas)
		return false
	}
	return true
}

// rolledBackPodsGone reports whether the workload runs no pod of the rejected version in a rollback. A Deployment's controller does not delete these
// pods by itself while the workload is held. A tool may apply the version again during the rollback, and the hold policy then pauses the Deployment.
// The controller of a paused Deployment fills the owner's surge with pods of the version with the most pods. Once that version has all replicas, it
// deletes all other pods.
func (p *planner) rolledBackPodsGone() bool {
	switch w := p.seen.Workload; {
	case p.isBlueGreen():
		return !w.Held && !w.TakenOver || p.newPodsGone()
	case !p.inPlace() || !w.Held:
		return true
	case w.UpdateMechanism == rollout.MechanismRollingUpdate:
		return !w.TakenOver && !w.MayTakeOthers() || p.podsRolledBack()
	default:
		return !w.MayTakeOthers() || p.podsRolledBackInPlace()
	}
}

// resumeWorkload releases the workload. Afterwards, the controller of a workload in place may delete the new pods.
func (p *planner) resumeWorkload() {
	if p.inPlace() && !p.graceOver() {
		return
	}
	resume := rollout.ResumeWorkload{Workload: p.seen.Spec.Workload, Paused: p.staysPaused(), StableID: p.stableID()}
	if resume.Paused && p.inPlace() && p.seen.Workload.UpdateMechanism == rollout.MechanismRollingUpdate {
		resume.Surge = max(0, p.totalReplicas()-p.seen.Workload.DesiredReplicas)
	}
	p.addActions(resume)
}

// stableID tells whether the rollout-id of the stable version is known after the executor releases the workload. A version that its owner took back
// may have had the same id. Then the executor forgets the id: under it the policies would let that version through without a step.
func (p *planner) stableID() rollout.StableID {
	switch w := p.seen.Workload; {
	case p.governed():
		return rollout.StableIDUnknown // under a known id, the policies would let a change through
	case p.finalisingFor(api.FinaliseSuccess) && !p.rolledBack():
		return rollout.StableIDPresent
	case w.IDLetsThrough && w.RolloutID == p.m.RolloutID && p.currentState().Releasing():
		return rollout.StableIDUnknown
	}
	return rollout.StableIDKept
}

// staysPaused reports whether the workload stays as it is when the Rollout is deleted. It does not after a rollback, because the remaining pods of
// the rejected version would get into the stable Service. If the release was never committed, the selector of the stable Service shows a rollback.
func (p *planner) staysPaused() bool {
	return p.seen.Deleting && p.seen.Spec.KeepPaused && !p.isBlueGreen() && !p.rolledBack() && !p.pinnedToTemplate()
}

// holdKeepPaused stalls the deletion of a blue-green release that would leave its workload paused: both versions are complete and would share a
// Service.
func (p *planner) holdKeepPaused() bool {
	if !p.seen.Spec.KeepPaused || !p.isBlueGreen() || p.workloadGone() || p.rolledBack() {
		return false
	}
	p.holdFor(rollout.Problem{Reason: rollout.ReasonUnsupported, Message: fmt.Sprintf(
		"The Rollout is being deleted, and its annotation %[1]s would leave both versions of %[2]s whole in one Service; remove it, and the new version rolls out: "+
			"kubectl annotate rollout %[3]s -n %[4]s %[1]s- ; or roll the workload back first",
		api.AnnotationKeepPaused, p.seen.Spec.Workload, p.seen.Name, p.seen.Namespace)})
	return true
}

// workloadSettled reports whether the workload's own controller has updated every pod to the template. Before that, the remaining pods of the other
// version would look like the start of another release.
func (p *planner) workloadSettled() bool {
	w := p.seen.Workload
	left := w.Updated < w.DesiredReplicas-w.OwnerPartition || w.Total > w.Updated+w.OwnerPartition
	switch {
	case p.deleteStuckPods():
		return false
	case w.OwnerPaused && left:
		p.holdFor(p.ownerPaused())
		return false
	case w.OwnerOnDelete && w.Observed && left:
		p.holdFor(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: fmt.Sprintf(
			"%[1]s has the update type OnDelete, so a pod gets the version when a user deletes it: %[2]d of %[3]d pods have it; delete the others, "+
				"or set its spec.updateStrategy.type to RollingUpdate: kubectl edit %[4]s -n %[5]s",
			p.seen.Spec.Workload, w.Updated, w.DesiredReplicas, p.seen.Spec.Workload.KubectlName(), p.seen.Namespace)})
		return false
	case !w.Observed || left:
		p.waitForEvent("waiting for the workload to run its version everywhere: %d of %d pods are updated, %d available", w.Updated, w.DesiredReplicas, w.Available)
		return false
	}
	return true
}

func (p *planner) ownerPaused() rollout.Problem {
	ref := p.seen.Spec.Workload
	resume := "kubectl rollout resume "
	switch {
	case ref.IsCloneSet():
		resume = "set its spec.updateStrategy.paused to false with kubectl edit "
	case !ref.IsDeployment():
		resume = "set its spec.updateStrategy.rollingUpdate.paused to false with kubectl edit "
	}
	return rollout.Problem{Reason: rollout.ReasonWorkloadPaused, Message: fmt.Sprintf(
		"%s is paused by its owner, so its version cannot reach all pods; resume it: %s%s -n %s", ref, resume, ref.KubectlName(), p.seen.Namespace)}
}

// supersededVersion reports whether the template is no longer the version that succeeded.
func (p *planner) supersededVersion() bool {
	return p.m.FinaliseReason == api.FinaliseSuccess && p.newVersion()
}

// rejectedGone reports whether the workload itself runs no pods of a rejected version. It runs some if a change came before its hold. Those pods
// would get into the stable Service together with the stable pods.
func (p *planner) rejectedGone() bool {
	w := p.seen.Workload
	if w == nil || w.Deleting || !p.pinnedToTemplate() || p.currentState().InStep() {
		return true
	}
	switch {
	case w.Observed && w.Total <= w.Updated:
		return true
	case w.AlteredByRelease():
		p.resumeWorkload()
		return false
	case w.OwnerPaused && !p.finalisingFor(api.FinaliseRollback):
		return true // disabling and deleting do not wait for a person
	}
	return p.workloadSettled()
}

// pinnedToTemplate reports whether a stable Service selects only pods of the version in the workload's template.
func (p *planner) pinnedToTemplate() bool {
	w := p.seen.Workload
	for _, backend := range p.serviceBackends() {
		for _, set := range w.Revisions {
			if set.Hash == backend.PinnedHash() && set.Revision == w.Revision && (set.Replicas > 0 || w.DesiredReplicas == 0) {
				return true
			}
		}
	}
	return false
}

// deleteCanary deletes the canary. Only after a success may its pods outlive it, because their version is approved.
func (p *planner) deleteCanary() {
	p.addActions(rollout.DeleteCanary{Name: p.seen.Spec.Workload.Name + api.SuffixCanary, Foreground: !p.finalisingFor(api.FinaliseSuccess)})
}

// canaryRemoved reports whether the canary is gone. The executor deletes its pods only when no traffic and no mirrored requests can reach them any
// more.
func (p *planner) canaryRemoved() bool {
	c := p.seen.Canary
	if !p.replicasHandedBack() {
		return false
	}
	if c == nil || !c.Ours {
		return true
	}
	if !p.routesCleared() {
		return false
	}
	if c.Deleting {
		p.waitForEvent("waiting for the pods of the canary to be gone")
		return false
	}
	if p.workloadServes() && p.graceOver() {
		p.deleteCanary()
	}
	return false
}

// anyPinned reports whether a stable Service selects only pods of one version.
func (p *planner) anyPinned() bool {
	for _, backend := range p.serviceBackends() {
		if backend.PinnedHash() != "" {
			return true
		}
	}
	return false
}

// workloadServes reports whether the workload's own pods can take over the traffic that the canary still gets while a release ends. The workload's
// controller may have deleted all its pods before others were ready. The controller of a held workload replaces no pods. If no pod of the approved
// version is ready there, the executor restores the stable pods.
func (p *planner) workloadServes() bool {
	w := p.seen.Workload
	if p.currentState() != rollout.StateFinalising || p.workloadGone() || w.DesiredReplicas == 0 || p.seen.Canary.ReadyPods() == 0 || p.pinnedToStable() {
		return true
	}
	if p.m.FinaliseReason != api.FinaliseSuperseded && p.endsForNextRelease() && len(p.seen.Spec.Routing) == 0 {
		return true // the workload has kept its stable pods, and the next version may fix them
	}
	switch ready := min(w.Available, w.ReadyPods()); {
	case !w.Observed:
		p.waitForObserved()
	case !w.Held && !w.OwnerPaused && w.MayTakeAll() && !p.workloadSettled():
	case w.Held && !w.Recreate && p.totalReplicas() > w.DesiredReplicas+w.MaxSurge:
		p.waitForObserved() // the controller of a paused Deployment deletes extra pods of any version
	case ready >= w.FullCapacity():
		return true
	case !w.Held || p.unreadyRevisionsGone():
		p.waitForEvent("waiting for the workload to be available: %d of %d pods are; the pods of the canary serve until then; to go on without them: kubectl delete %s%s -n %s",
			ready, w.DesiredReplicas, p.seen.Spec.Workload.KubectlName(), api.SuffixCanary, p.seen.Namespace)
	}
	return false
}

// stableTakesOver reports whether the stable version can take over the requests that routes send to the new version. One of its pods must be ready,
// unless the owner accepts otherwise. Before a newer version, the release does not wait, because the newer version may fix the stable pods.
func (p *planner) stableTakesOver() bool {
	w := p.seen.Workload
	if p.workloadGone() || w.DesiredReplicas == 0 || p.endsForNextRelease() || p.endsWithSharedService() || !p.anyPinned() || p.seen.Spec.AllowUnreachable {
		return true
	}
	if !p.newRouted() || p.newReady() == 0 || p.stablePods() == 0 || p.stableReady() > 0 {
		return true
	}
	p.waitForEvent("waiting for a ready pod of the stable version: only pods of the new version are ready, and they keep their requests until then; " +
		"to take these away all the same, set spec.strategy.allowUnreachableStable: true")
	return false
}

// newRouted reports whether a gateway object sends requests to the new version.
func (p *planner) newRouted() bool {
	return slices.ContainsFunc(p.seen.Routes, func(r rollout.Route) bool { return r.Shaped && (r.Weight > 0 || len(p.currentStep().Matches) > 0) })
}

// newReady returns the number of ready pods of the new version, in the canary or in the workload.
func (p *planner) newReady() int32 {
	if p.inPlace() || p.isBlueGreen() {
		return p.releasedRevision().Ready
	}
	return p.seen.Canary.ReadyPods()
}

// completeFinalising enters the state that follows the reason of finalising.
func (p *planner) completeFinalising() {
	reason := p.m.FinaliseReason
	if p.endsForNextRelease() {
		p.startRelease()
		return
	}
	p.m.Finalise, p.m.GraceUntil, p.m.GraceFor, p.m.Contests = "", nil, "", nil
	p.m.RollbackReplicas = 0
	switch reason {
	case api.FinaliseDeleting:
		p.enterState(rollout.StateTerminated, "Deleted", "Rollout is in terminating", "")
	case api.FinaliseDisabled:
		p.enterState(rollout.StateDisabled, "Disabled", "Rollout is disabled", "")
	case api.FinaliseSuccess:
		p.promoteRevision()
		p.enterState(rollout.StateIdle, "Completed", "Rollout progressing has been completed", "")
	case api.FinaliseWithdrawn:
		p.serve(p.templateVersion())
		p.enterState(rollout.StateIdle, "Withdrawn", "The workload runs the version before again", "")
	default:
		p.enterState(rollout.StateIdle, "Canceled", "Rollout progressing has been canceled", "")
	}
}

// promoteRevision makes the version that succeeded the stable version if more of its pods than of the old version are ready. Otherwise the next
// release starts from the old version, which can serve the traffic.
func (p *planner) promoteRevision() {
	w := p.seen.Workload
	if w == nil {
		return
	}
	old := int32(0)
	for _, set := range w.Revisions {
		if set.Hash == p.m.StableRevision {
			old = set.Ready
		}
	}
	for _, set := range w.Revisions {
		if set.Revision == p.m.CanaryRevision && set.Ready > old {
			p.m.StableRevision = set.Hash
		}
	}
	p.recordRecentRevision()
}
