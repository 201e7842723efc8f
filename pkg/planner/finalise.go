package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// finalisingTasks is the order of finalising. Success hands all traffic to a Service that selects every pod before anything
// goes; a rollback takes traffic off the canary before its pods go. Disabling and deleting end as a success does, unless the
// version of the canary is no longer wanted, or not yet: then it must not get into a stable Service that is narrowed, so its pods go first.
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
	case reason != api.FinaliseSuccess && (p.workloadGone() || p.newVersion() && p.anyPinned() || p.staysPaused()):
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

// planFinalising works off the tasks in order, from the first one each time: a task is done when the world shows it, so one that a
// crash cut short, that somebody else did, or that came undone is simply seen as what it is.
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
	if p.m.FinaliseReason == api.FinaliseRollback && !p.workloadGone() && !p.workloadSettled() {
		return
	}
	p.completeFinalising()
}

// nextReleaseFollows reports whether another release follows, of a change that is held meanwhile.
func (p *planner) nextReleaseFollows() bool {
	return p.endsForNextRelease() && !p.workloadGone()
}

// endsForNextRelease reports whether it is for another release that this one ends.
func (p *planner) endsForNextRelease() bool {
	switch p.m.FinaliseReason {
	case api.FinaliseContinuous, api.FinaliseSuperseded, api.FinaliseRetry, api.FinaliseRollbackInBatch:
		return true
	}
	return false
}

// redirectFinalising changes the reason of finalising when a stronger one has come up.
func (p *planner) redirectFinalising() bool {
	switch reason := p.m.FinaliseReason; {
	case reason == api.FinaliseDeleting || reason == api.FinaliseDisabled:
		return false
	case p.seen.Spec.Disabled:
		p.startFinalising(api.FinaliseDisabled, "Disabling rollout, release resources")
	case reason == api.FinaliseWorkloadGone && p.workloadGone():
		return false
	case reason == api.FinaliseWorkloadGone && !p.rolledBack():
		// The workload was missing for a moment only. To release it would promote a version without its approvals.
		p.startFinalising(api.FinaliseContinuous, "the workload is there again, and its release starts over")
	case p.workloadGone():
		p.startFinalising(api.FinaliseWorkloadGone, "the workload was deleted during its release")
	case reason == api.FinaliseWorkloadGone, reason == api.FinaliseSuccess && p.newVersion() && p.rolledBack():
		p.rollBack()
	case reason == api.FinaliseSuccess && p.newVersion() && p.workloadSurged():
		// No component creates more pods of the approved version: its controller does not, and the executor cannot, because this workload has no
		// ReplicaSets.
		p.startFinalising(api.FinaliseSuperseded, "a newer version came before the one that was agreed to had the workload to itself; it is released from the stable version")
	case reason == api.FinaliseSuccess && p.newVersion() && p.stableStillComplete():
		p.startFinalising(api.FinaliseSuperseded, "a newer version came before all pods of the one that was agreed to were ready; it is released from the stable version")
	case reason == api.FinaliseRetry && p.rolledBack() && !p.rollingBackInBatches():
		p.rollBack() // while it was being tried again
	case reason == api.FinaliseRollback && !p.rolledBack():
		// The remaining pods of the version that was rolled back must not get into the stable Service. They go while the next version comes.
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

// workloadResumed reports whether the workload has its held fields back and, after a success, runs the new version everywhere.
// A newer version that arrived meanwhile is not let go: it stays held for a release of its own.
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
		p.holdFor(p.ownerPaused()) // its controller would make older pods in the place of the canary's
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

// rolledBackPodsGone reports whether the workload runs no pod of the version that a rollback takes back. Only of other kinds, and of a workload that was let
// go, the workload's own controller takes these pods away. A tool may apply the version again during the rollback, and the hold policy then pauses
// the Deployment. The controller of a paused Deployment fills the owner's surge with pods of the version that has most, and takes away all others
// once that version has all replicas.
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

// resumeWorkload lets go of the workload. One that has brought the new pods in itself may take them away from then on.
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

// stableID tells whether the rollout-id of the stable version is known when an executor releases the workload. A version that its owner took back
// may have had the same id. Then the executor forgets the id: with it the policies would let that version through without a step.
func (p *planner) stableID() rollout.StableID {
	switch w := p.seen.Workload; {
	case p.finalisingFor(api.FinaliseSuccess) && !p.rolledBack():
		return rollout.StableIDPresent
	case w.IDLetsThrough && w.RolloutID == p.m.RolloutID && p.currentState().Releasing():
		return rollout.StableIDUnknown
	}
	return rollout.StableIDKept
}

// staysPaused reports whether the workload keeps its present mix of versions when the Rollout is deleted. The pods of a version that was taken back
// cannot stay: the stable Service would reach them. For a release without a commit, the Service shows this.
func (p *planner) staysPaused() bool {
	return p.seen.Deleting && p.seen.Spec.KeepPaused && !p.isBlueGreen() && !p.rolledBack() && !p.pinnedToTemplate()
}

// holdKeepPaused holds the deletion of a blue-green release that is to leave its workload paused: both versions are whole, and would share a Service.
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

// workloadSettled reports whether the workload's own controller has brought every pod to the template. Before that, the remaining pods of the other
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
			"%[1]s has the update type OnDelete, so a pod gets the version when somebody deletes it: %[2]d of %[3]d pods have it; delete the others, "+
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

// rejectedGone reports whether the workload itself runs no pods of a version that was rolled back. It does when a change came
// before its hold: those pods would be let into the stable Service together with the stable ones.
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

// pinnedToTemplate reports whether a stable Service is narrowed to pods of the version that the workload's template is.
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

// deleteCanary takes the canary away. Only after a success its pods may outlive it: their version is agreed to.
func (p *planner) deleteCanary() {
	p.addActions(rollout.DeleteCanary{Name: p.seen.Spec.Workload.Name + api.SuffixCanary, Foreground: !p.finalisingFor(api.FinaliseSuccess)})
}

// canaryRemoved reports whether the canary is gone; its pods go only when no traffic can reach them any more, after what copied requests to them.
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

// anyPinned reports whether a stable Service is narrowed to pods of one version.
func (p *planner) anyPinned() bool {
	for _, backend := range p.serviceBackends() {
		if backend.PinnedHash() != "" {
			return true
		}
	}
	return false
}

// workloadServes reports whether the workload's own pods can take over the traffic that the canary still gets while a release ends. The
// workload's controller may have taken all of its pods before others were ready. The controller of a held workload replaces no pods. If no pod
// of the approved version is ready there, the executor brings the stable pods back.
func (p *planner) workloadServes() bool {
	w := p.seen.Workload
	if p.currentState() != rollout.StateFinalising || p.workloadGone() || w.DesiredReplicas == 0 || p.seen.Canary.ReadyPods() == 0 || p.pinnedToStable() {
		return true
	}
	if p.m.FinaliseReason != api.FinaliseSuperseded && p.endsForNextRelease() && len(p.seen.Spec.Routing) == 0 {
		return true // the workload has kept its stable pods, and they may be what the next version mends
	}
	switch ready := min(w.Available, w.ReadyPods()); {
	case !w.Observed:
		p.waitForObserved()
	case !w.Held && !w.OwnerPaused && w.MayTakeAll() && !p.workloadSettled():
	case w.Held && !w.Recreate && p.totalReplicas() > w.DesiredReplicas+w.MaxSurge:
		p.waitForObserved() // the controller of a paused Deployment deletes surplus pods of any version
	case ready >= w.FullCapacity():
		return true
	case !w.Held || p.unreadyRevisionsGone():
		p.waitForEvent("waiting for the workload to be available: %d of %d pods are; the pods of the canary serve until then; to go on without them: kubectl delete %s%s -n %s",
			ready, w.DesiredReplicas, p.seen.Spec.Workload.KubectlName(), api.SuffixCanary, p.seen.Namespace)
	}
	return false
}

// stableTakesOver reports whether the stable version can take over the requests that routes lead to the new version: one of its pods is ready, or the
// owner does without. A newer version comes in any case: it may be what mends the stable pods.
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

// newRouted reports whether a gateway object leads requests to the new version.
func (p *planner) newRouted() bool {
	return slices.ContainsFunc(p.seen.Routes, func(r rollout.Route) bool { return r.Shaped && (r.Weight > 0 || len(p.currentStep().Matches) > 0) })
}

// newReady is how many pods of the new version are ready, in the canary or in the workload.
func (p *planner) newReady() int32 {
	if p.inPlace() || p.isBlueGreen() {
		return p.releasedRevision().Ready
	}
	return p.seen.Canary.ReadyPods()
}

// completeFinalising goes where the reason of finalising leads.
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
	default:
		p.enterState(rollout.StateIdle, "Canceled", "Rollout progressing has been canceled", "")
	}
}

// promoteRevision makes the version that has succeeded the stable one, unless it was replaced before more of it than of the old one ran:
// then the next release starts from the old one, which can bear the traffic.
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
