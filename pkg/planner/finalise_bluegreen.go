package planner

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// blueGreenTasks returns the tasks of finalising a success or a rollback in blue-green style, in order (contract 2.5). A success keeps all traffic on
// the new version while the old pods go. A rollback takes traffic off the new pods, then deletes those pods, and then releases the workload.
// Otherwise a newer change could pause the workload meanwhile, and the controller of a paused workload deletes extra pods of all versions. Disabling
// and deleting end as in canary style.
func (p *planner) blueGreenTasks() []api.FinalisingStep {
	if p.m.FinaliseReason == api.FinaliseSuccess {
		return []api.FinalisingStep{
			api.FinalisingRouteTrafficToNew, api.FinalisingRestoreStableService, api.FinalisingResumeWorkload,
			api.FinalisingRouteTrafficToStable, api.FinalisingRemoveCanaryService, api.FinalisingReleaseWorkloadControl,
		}
	}
	return []api.FinalisingStep{
		api.FinalisingRouteTrafficToStable, api.FinalisingResumeWorkload, api.FinalisingRestoreStableService,
		api.FinalisingRemoveCanaryService, api.FinalisingReleaseWorkloadControl,
	}
}

// routedToNew reports whether all traffic is on the new version, with all its pods, while other pods go.
func (p *planner) routedToNew() bool {
	if p.seen.Spec.Routing == nil || p.workloadGone() || p.onlyNewPods() || p.supersededVersion() && p.releasedRevision().Hash == "" {
		return true
	}
	w := p.seen.Workload
	if p.releasedRevision().Hash == p.m.StableRevision {
		return true // no pods were new, and all traffic goes to this version
	}
	free := !w.Held || w.UpdateMechanism != rollout.MechanismRollingUpdate && !w.Surged
	if free && (p.supersededVersion() || w.DesiredReplicas == 0 || p.releasedRevision().Ready < w.DesiredReplicas) {
		return true // the workload is unmanaged, and traffic must not go to only some of its pods, or to none
	}
	if w.DesiredReplicas == 0 && p.supersededVersion() {
		return p.routesRestored() // the version that returns is not the approved version
	}
	return p.newComplete() && p.ensureCanaryService() && p.ensureRoutes()
}

// onlyNewPods reports whether the workload runs only pods of the version that succeeds. Then no route has to avoid other pods, and no other pods
// return.
func (p *planner) onlyNewPods() bool {
	w := p.seen.Workload
	if !w.Held && w.Observed && w.Revision == p.m.CanaryRevision && w.Updated > 0 && w.Total <= w.Updated {
		return true // the controller of the released workload says so, and the ReplicaSets may be from before that
	}
	for _, set := range w.Revisions {
		if set.Replicas > 0 && set.Revision != p.m.CanaryRevision {
			return false
		}
	}
	return true
}

// newComplete reports whether the new version has all pods, ready. If a newer version has replaced it in the template, the executor scales its
// ReplicaSet, because the controller creates pods of the template only. The newer version waits for a release of its own. Until the pods are ready,
// the executor also restores the stable pods. The newer version is then released from the first of the two versions that is complete.
func (p *planner) newComplete() bool {
	w, set := p.seen.Workload, p.releasedRevision()
	stable, _ := p.splitRevisions()
	switch {
	case !w.Held:
		return true // released already
	case !p.supersededVersion():
		return p.ensurePods()
	case !p.replicaSetsFrozen():
	case set.Replicas < w.DesiredReplicas:
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: w.DesiredReplicas, Completes: true})
	case set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= w.DesiredReplicas:
		return true
	case stable != nil && stable.Replicas < w.DesiredReplicas: // the other pods may never be ready
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.DesiredReplicas})
	default:
		p.waitForEvent("waiting for the workload to run its version everywhere: %d of %d pods are ready", set.Ready, w.DesiredReplicas)
	}
	return false
}

// stableStillComplete reports whether the stable version still has all its pods, ready, while the approved version lacks some. Those may never be
// ready.
func (p *planner) stableStillComplete() bool {
	w, set := p.seen.Workload, p.releasedRevision()
	if !p.isBlueGreen() || w.UpdateMechanism != rollout.MechanismRollingUpdate || !w.Held || set.Ready+p.seen.Spec.FailureThreshold.Of(w.DesiredReplicas) >= w.DesiredReplicas {
		return false
	}
	stable, _ := p.splitRevisions()
	return stable != nil && stable.Replicas >= w.DesiredReplicas && stable.Ready >= w.FullCapacity()
}

// ensureOnlyNewPods reports whether only the approved version runs after a newer version has replaced it in the template.
func (p *planner) ensureOnlyNewPods() bool {
	if !p.seen.Workload.Held || p.releasedRevision().Hash == "" || p.onlyNewPods() {
		return true
	}
	if !p.newComplete() {
		return false
	}
	for _, set := range p.seen.Workload.Revisions {
		if set.Replicas > 0 && set.Revision != p.m.CanaryRevision {
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		}
	}
	return false
}

// replicaSetsFrozen reports whether the workload's controller leaves ReplicaSets as they are.
func (p *planner) replicaSetsFrozen() bool {
	switch w := p.seen.Workload; {
	case !w.TakenOver:
		p.takeOverWorkload()
	case !w.ReplicaSetsFrozen, w.UpdateMechanism == rollout.MechanismRollingUpdate && !w.Paused: // a user may have resumed it
		p.addActions(rollout.FreezeWorkload{Workload: p.seen.Spec.Workload})
	case !w.Observed:
		p.waitForObserved()
	default:
		return true
	}
	return false
}

// newPodsGone reports whether all pods of an interrupted release's version are gone. The executor deletes them when no traffic can reach them any
// more; after an abort, it waits for a delay. If the stable Service also selects them, it deletes them at once.
func (p *planner) newPodsGone() bool {
	w := p.seen.Workload
	stable, others := p.splitRevisions()
	if len(others) == 0 {
		return true
	}
	if gone := p.stateSince().Add(p.seen.Spec.AbortDelay); p.currentState() == rollout.StateAborted && p.pinnedToStable() && p.now.Before(gone) {
		p.waitUntil(gone, "")
		return false
	}
	switch {
	case !p.graceOver():
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && !p.rolledBack() && w.RevertsTo != p.m.StableRevision:
		return true // the controller would create others, and the next release starts from these pods
	case stable == nil:
		p.holdFor(p.stableMissing())
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && p.rolledBack() && stable.Replicas < w.DesiredReplicas && w.MayTakeOthers():
		return p.podsRolledBackInPlace()
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && p.rolledBack() && stable.Replicas < w.DesiredReplicas:
		return true // its own controller replaces the others with stable pods
	case (w.UpdateMechanism == rollout.MechanismRollingUpdate || w.Surged) && !p.replicaSetsFrozen():
	case w.UpdateMechanism != rollout.MechanismRollingUpdate:
		return p.podsReverted(others)
	case stable.Replicas < w.DesiredReplicas:
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.DesiredReplicas})
	case !p.pinnedToStable() && stable.Ready < w.FullCapacity():
		p.waitForStable(stable)
	default:
		for _, set := range others {
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		}
	}
	return false
}

// blueGreenReleased reports whether the release has left the workload: no pods of an unwanted version run. Its autoscalers must also be restored,
// unless another release follows.
func (p *planner) blueGreenReleased() bool {
	if !p.isBlueGreen() || p.nextReleaseFollows() && p.m.FinaliseReason == api.FinaliseRetry {
		return true
	}
	agreed := p.m.FinaliseReason == api.FinaliseSuccess || p.m.FinaliseReason == api.FinaliseRollback
	held := !p.workloadGone() && (p.seen.Workload.Held || p.seen.Workload.TakenOver) // after the workload was released, its other pods belong to its owner
	if !agreed && held && p.newVersion() && !p.newPodsGone() {
		return false
	}
	return p.nextReleaseFollows() || p.autoscalersRestored()
}
