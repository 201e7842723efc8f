package planner

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// blueGreenTasks is the order of finalising a success or a rollback in blue-green style. Success puts all traffic on the new version for as long as the
// old pods go. A rollback takes traffic off the new pods, and then those pods away, before it lets the workload go: a newer change meanwhile
// would pause it, and a paused workload takes pods too many from all versions. Disabling and deleting end as they do in canary style.
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

// routedToNew reports whether all traffic is on the new version, with all its pods, for as long as there are others that go.
func (p *planner) routedToNew() bool {
	if p.seen.Spec.Routing == nil || p.workloadGone() || p.onlyNewPods() || p.supersededVersion() && p.releasedRevision().Hash == "" {
		return true
	}
	w := p.seen.Workload
	if p.releasedRevision().Hash == p.m.StableRevision {
		return true // there was nothing new, and no traffic goes anywhere else
	}
	free := !w.Held || w.UpdateMechanism != rollout.MechanismRollingUpdate && !w.Surged
	if free && (p.supersededVersion() || w.DesiredReplicas == 0 || p.releasedRevision().Ready < w.DesiredReplicas) {
		return true // it runs free, and traffic is not sent to less than all pods, nor to none
	}
	if w.DesiredReplicas == 0 && p.supersededVersion() {
		return p.routesRestored() // any version that comes back is not the approved one
	}
	return p.newComplete() && p.ensureCanaryService() && p.ensureRoutes()
}

// onlyNewPods reports whether the workload runs only pods of the version that succeeds. Then no route has to avoid other pods, and no other pods
// come back.
func (p *planner) onlyNewPods() bool {
	for _, set := range p.seen.Workload.Revisions {
		if set.Replicas > 0 && set.Revision != p.m.CanaryRevision {
			return false
		}
	}
	return true
}

// newComplete reports whether the new version has all pods, ready. Of one that a newer version has replaced already, which waits for a
// release of its own, the pods come by their ReplicaSet: the workload's controller goes towards the template only. Until they are ready the
// stable ones come back as well: the newer version is released from the first of the two that is whole.
func (p *planner) newComplete() bool {
	w, set := p.seen.Workload, p.releasedRevision()
	stable, _ := p.splitRevisions()
	switch {
	case !w.Held:
		return true // let go already
	case !p.supersededVersion():
		return p.ensurePods()
	case !p.replicaSetsFrozen():
	case set.Replicas < w.DesiredReplicas:
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: w.DesiredReplicas, Completes: true})
	case set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= w.DesiredReplicas:
		return true
	case stable != nil && stable.Replicas < w.DesiredReplicas: // the others may never be ready
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.DesiredReplicas})
	default:
		p.waitForEvent("waiting for the workload to run its version everywhere: %d of %d pods are ready", set.Ready, w.DesiredReplicas)
	}
	return false
}

// stableStillComplete reports whether the stable version still has all its pods, ready, while an approved version lacks some that may never be
// ready.
func (p *planner) stableStillComplete() bool {
	w, set := p.seen.Workload, p.releasedRevision()
	if !p.isBlueGreen() || w.UpdateMechanism != rollout.MechanismRollingUpdate || !w.Held || set.Ready+p.seen.Spec.FailureThreshold.Of(w.DesiredReplicas) >= w.DesiredReplicas {
		return false
	}
	stable, _ := p.splitRevisions()
	return stable != nil && stable.Replicas >= w.DesiredReplicas && stable.Ready >= w.FullCapacity()
}

// ensureOnlyNewPods reports whether a version that was agreed to, and that a newer one has replaced in the template, is the only one that runs.
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
	case !w.ReplicaSetsFrozen, w.UpdateMechanism == rollout.MechanismRollingUpdate && !w.Paused: // somebody may have set it free
		p.addActions(rollout.FreezeWorkload{Workload: p.seen.Spec.Workload})
	case !w.Observed:
		p.waitForObserved()
	default:
		return true
	}
	return false
}

// newPodsGone reports whether an interrupted release has left no pod of its version in parallel with the stable ones. They go when no traffic can
// reach them any more, and for an aborted release after a delay. If the stable Service reaches them as well, they go at once.
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
		return true // others would come in their place, and are what the next release starts from
	case stable == nil:
		p.holdFor(p.stableMissing())
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && p.rolledBack() && stable.Replicas < w.DesiredReplicas && w.MayTakeOthers():
		return p.podsRolledBackInPlace()
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && p.rolledBack() && stable.Replicas < w.DesiredReplicas:
		return true // its own controller brings the stable pods back in the place of the others
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

// blueGreenReleased reports whether nothing of the release is left on the workload: no pods of a version that is not wanted, and its
// autoscalers have it back, unless another release follows.
func (p *planner) blueGreenReleased() bool {
	if !p.isBlueGreen() || p.nextReleaseFollows() && p.m.FinaliseReason == api.FinaliseRetry {
		return true
	}
	agreed := p.m.FinaliseReason == api.FinaliseSuccess || p.m.FinaliseReason == api.FinaliseRollback
	held := !p.workloadGone() && (p.seen.Workload.Held || p.seen.Workload.TakenOver) // after its release the additional pods are its owner's
	if !agreed && held && p.newVersion() && !p.newPodsGone() {
		return false
	}
	return p.nextReleaseFollows() || p.autoscalersRestored()
}
