package planner

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// besideTasks is the order of finalising a success or a rollback in blue-green style (contract 2.5). Success puts all traffic on the new version for as long as the
// old pods go. A rollback takes traffic off the new pods, and then those pods away, before it lets the workload go: a newer change meanwhile
// would pause it, and a paused workload takes pods too many from all versions. Disabling and deleting end as they do in canary style.
func (p *planner) besideTasks() []api.FinalisingStep {
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
	if p.seen.Spec.Routing == nil || p.workloadGone() || p.onlyNew() || p.supersededVersion() && p.canarySet().Hash == "" {
		return true
	}
	w := p.seen.Workload
	if p.canarySet().Hash == p.m.StableRevision {
		return true // there was nothing new, and no traffic goes anywhere else
	}
	free := !w.Held || w.Lever != rollout.LeverBudget && !w.Widened
	if free && (p.supersededVersion() || w.Replicas == 0 || p.canarySet().Ready < w.Replicas) {
		return true // it runs free, and traffic is not sent to less than all pods, nor to none
	}
	if w.Replicas == 0 && p.supersededVersion() {
		return p.routesRestored() // whichever version comes back, it is not the one that was agreed to
	}
	return p.newComplete() && p.ensureCanaryService() && p.ensureRoutes()
}

// onlyNew reports whether the workload runs no pods but those of the version that succeeds. Then nothing has to be routed past others,
// and none come back.
func (p *planner) onlyNew() bool {
	for _, set := range p.seen.Workload.Sets {
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
	w, set := p.seen.Workload, p.canarySet()
	stable, _ := p.sides()
	switch {
	case !w.Held:
		return true // let go already
	case !p.supersededVersion():
		return p.ensurePods()
	case !p.leftAlone():
	case set.Replicas < w.Replicas:
		p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: w.Replicas, Completes: true})
	case set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= w.Replicas:
		return true
	case stable != nil && stable.Replicas < w.Replicas: // the others may never be ready
		p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.Replicas})
	default:
		p.wait("waiting for the workload to run its version everywhere: %d of %d pods are ready", set.Ready, w.Replicas)
	}
	return false
}

// keptByStable reports whether the stable version still has all its pods, ready, beside a version that was agreed to and lacks some. Those may
// never be ready.
func (p *planner) keptByStable() bool {
	w, set := p.seen.Workload, p.canarySet()
	if !p.beside() || w.Lever != rollout.LeverBudget || !w.Held || set.Ready+p.seen.Spec.FailureThreshold.Of(w.Replicas) >= w.Replicas {
		return false
	}
	stable, _ := p.sides()
	return stable != nil && stable.Replicas >= w.Replicas && stable.Ready >= w.Full()
}

// newAlone reports whether a version that was agreed to, and that a newer one has replaced in the template, is the only one that runs.
func (p *planner) newAlone() bool {
	if !p.seen.Workload.Held || p.canarySet().Hash == "" || p.onlyNew() {
		return true
	}
	if !p.newComplete() {
		return false
	}
	for _, set := range p.seen.Workload.Sets {
		if set.Replicas > 0 && set.Revision != p.m.CanaryRevision {
			p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		}
	}
	return false
}

// leftAlone reports whether the workload's controller leaves ReplicaSets as they are.
func (p *planner) leftAlone() bool {
	switch w := p.seen.Workload; {
	case !w.Parked:
		p.park()
	case !w.Backwards, w.Lever == rollout.LeverBudget && !w.Paused: // somebody may have set it free
		p.act(rollout.RetreatWorkload{Workload: p.seen.Spec.Workload})
	case !w.Observed:
		p.waitToBeSeen()
	default:
		return true
	}
	return false
}

// besideGone reports whether a release that was turned aside has left no pod of its version beside the stable ones. They go when no
// traffic can reach them any more, of an aborted release after a delay; where the stable Service has them too, at once.
func (p *planner) besideGone() bool {
	w := p.seen.Workload
	stable, others := p.sides()
	if len(others) == 0 {
		return true
	}
	if gone := p.since().Add(p.seen.Spec.AbortDelay); p.state() == rollout.StateAborted && p.pinnedToStable() && p.now.Before(gone) {
		p.waitUntil(gone, "")
		return false
	}
	switch {
	case !p.graceOver():
	case w.Lever != rollout.LeverBudget && !p.rolledBack() && w.RevertsTo != p.m.StableRevision:
		return true // others would come in their place, and are what the next release starts from
	case stable == nil:
		p.holdFor(p.stableMissing())
	case w.Lever != rollout.LeverBudget && p.rolledBack() && stable.Replicas < w.Replicas && w.MayTakeOthers():
		return p.returnedInPlace()
	case w.Lever != rollout.LeverBudget && p.rolledBack() && stable.Replicas < w.Replicas:
		return true // its own controller brings the stable pods back in the place of the others
	case (w.Lever == rollout.LeverBudget || w.Widened) && !p.leftAlone():
	case w.Lever != rollout.LeverBudget:
		return p.reverted(others)
	case stable.Replicas < w.Replicas:
		p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.Replicas})
	case !p.pinnedToStable() && stable.Ready < w.Full():
		p.waitForStable(stable)
	default:
		for _, set := range others {
			p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		}
	}
	return false
}

// besideReleased reports whether nothing of the release is left on the workload: no pods of a version that is not wanted, and its
// autoscalers have it back, unless another release follows.
func (p *planner) besideReleased() bool {
	if !p.beside() || p.begins() && p.m.FinaliseReason == api.FinaliseRetry {
		return true
	}
	agreed := p.m.FinaliseReason == api.FinaliseSuccess || p.m.FinaliseReason == api.FinaliseRollback
	held := !p.workloadGone() && (p.seen.Workload.Held || p.seen.Workload.Parked) // once it was let go, the pods beside the stable ones are its owner's
	if !agreed && held && p.newVersion() && !p.besideGone() {
		return false
	}
	return p.begins() || p.scalersBack()
}
