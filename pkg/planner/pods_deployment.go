package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// ensureRolled reports whether a Deployment is paused with the ready new pods of the step. It resumes the Deployment with a budget that rises with
// every ready pod, and pauses it again at the step.
func (p *planner) ensureRolled() bool {
	w, set, want := p.seen.Workload, p.templateRevision(), p.desiredNewPods()
	switch {
	case !p.updateNotStarted() && !p.ensureTakenOver():
		return false
	case !set.Unavailable:
		p.waitForObserved()
		return false
	case !p.otherRevisionsUnavailable():
		return false
	case !p.scaledFromZero() || set.Replicas == 0 && !p.routesRestored():
		return false
	}
	switch done := p.stepPodsReady(); {
	case done && w.Paused && !w.ReplicaSetsFrozen:
		return p.podsLabelled()
	case done && !w.Paused && p.totalReplicas() <= w.DesiredReplicas+pausedBudget(w, set.Replicas).Surge:
		p.addActions(rollout.PauseWorkload{Workload: p.seen.Spec.Workload, Budget: pausedBudget(w, set.Replicas)})
		return false
	case !done && w.Paused && set.Replicas >= want:
		// Some new pods are not ready. The workload's controller cannot change that.
	default:
		// The step may tolerate more unready pods, but the owner's budget allows no more missing pods.
		old := p.totalReplicas() - set.Replicas
		next := rollingUpdateBudget(w, max(want, set.Replicas), set.Ready, w.DesiredReplicas-old)
		if w.Paused || w.Budget != next {
			p.addActions(rollout.ResumeRollingUpdate{Workload: p.seen.Spec.Workload, Budget: next})
			return false
		}
	}
	p.waitForPods()
	return false
}

// updateNotStarted reports whether a Deployment is as it was when a policy held its change, with all its pods stable and no ReplicaSet for the new
// version. Then the executor may take it over and resume it in one patch, because its controller has nothing to do in between.
func (p *planner) updateNotStarted() bool {
	w := p.seen.Workload
	stable, others := p.splitRevisions()
	return !w.TakenOver && w.Paused && w.Observed && p.templateRevision().Hash == "" && len(others) == 0 && stable != nil && stable.Replicas >= w.DesiredReplicas
}

// waitForPods waits for the pods of the step. Those that exist already get their labels. In a rollback in batches, the pods that it keeps would get
// the labels first, so it labels all pods at the end of the step.
func (p *planner) waitForPods() {
	if p.m.RollbackReplicas == 0 && !p.podsLabelled() {
		return
	}
	want := p.desiredNewPods()
	p.lacks = unmetNewPods(p.stepPodsReady(), want)
	if p.m.RollbackReplicas > 0 {
		p.waitForEvent("Rollout is in step(%d/%d) of a rollback in batches: %d of %d pods of the stable version are ready",
			p.m.Step, len(p.seen.Spec.Steps), min(p.templateRevision().Ready, want), want)
		return
	}
	p.waitForEvent("Rollout is in step(%d/%d), and upgrade workload to new version: %d of %d new pods are ready%s%s",
		p.m.Step, len(p.seen.Spec.Steps), min(p.templateRevision().Ready, want), want, p.budgetMessage(), p.stuckPodsMessage())
}

// stuckPodsMessage explains why a controller may create no new pods: some controllers also count unready pods of other versions, and wait for them.
func (p *planner) stuckPodsMessage() string {
	w, unready := p.seen.Workload, int32(0)
	if w.UpdateMechanism != rollout.MechanismPartition || p.templateRevision().Replicas >= p.desiredNewPods() {
		return ""
	}
	for _, set := range w.Revisions {
		if set.Revision != w.Revision {
			unready += set.Replicas - set.Ready
		}
	}
	if unready < max(1, w.MaxUnavailable) {
		return ""
	}
	return fmt.Sprintf("; pods of another version that are not ready (%d) may keep its controller from going on: see maxUnavailable of %s", unready, p.seen.Spec.Workload)
}

// budgetMessage explains why a step with enough ready pods does not end: the owner's budget has no room for the unready pods that the step tolerates.
func (p *planner) budgetMessage() string {
	w, set := p.seen.Workload, p.templateRevision()
	have := max(p.desiredNewPods(), set.Replicas)
	if p.isBlueGreen() || set.Ready == 0 || set.Ready+p.seen.Spec.FailureThreshold.Of(have) < have || have-set.Ready <= w.MaxUnavailable {
		return ""
	}
	return fmt.Sprintf("; failureThreshold would do with them, but only %d pods may be missing at once: see maxUnavailable of %s", w.MaxUnavailable, p.seen.Spec.Workload)
}

func (p *planner) waitForObserved() {
	p.waitForEvent("waiting for the controller of %s to see how it is to be released", p.seen.Spec.Workload)
}

// takeOverWorkload holds the workload as it is. The controller of a paused Deployment still scales its pods, surge included, regardless of versions.
func (p *planner) takeOverWorkload() {
	w := p.seen.Workload
	if w.UpdateMechanism != rollout.MechanismRollingUpdate && !w.Surged {
		p.addActions(rollout.HoldWorkload{Workload: p.seen.Spec.Workload})
		return
	}
	if p.isBlueGreen() || p.podsLostBeforeHold() > 0 {
		p.addActions(rollout.TakeOverWorkload{Workload: p.seen.Spec.Workload})
		return
	}
	p.addActions(rollout.TakeOverWorkload{Workload: p.seen.Spec.Workload, Budget: rollout.Budget{
		Unavailable: max(1, percentFor(p.templateRevision().Replicas, w.DesiredReplicas)), Surge: max(0, p.totalReplicas()-w.DesiredReplicas),
	}})
}

// podsLostBeforeHold returns the number of pods that a Deployment had deleted for new pods when it was paused late, while it has stable pods. Its
// controller would replace them in the version with the most pods, or in the newest of equal versions.
func (p *planner) podsLostBeforeHold() int32 {
	if stable, _ := p.splitRevisions(); !p.inPlace() || p.isBlueGreen() || p.seen.Workload.UpdateMechanism != rollout.MechanismRollingUpdate || stable == nil || stable.Replicas == 0 {
		return 0
	}
	return max(0, p.seen.Workload.DesiredReplicas-p.totalReplicas())
}

// lostPodsRestored reports whether a Deployment that was paused late has all its pods. The executor restores the missing pods as stable pods.
func (p *planner) lostPodsRestored() bool {
	w, missing := p.seen.Workload, p.podsLostBeforeHold()
	if missing == 0 || !w.Paused || !w.TakenOver || !w.ReplicaSetsFrozen {
		return true
	}
	if !w.Observed {
		p.waitForObserved()
		return false
	}
	stable, _ := p.splitRevisions()
	p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: stable.Replicas + missing})
	return false
}

// otherRevisionsUnavailable reports whether no pod of a third version counts as available. Pods of a version that began to roll before the late pause
// do count. The controller of a Deployment would then delete stable pods first, because they are older.
func (p *planner) otherRevisionsUnavailable() bool {
	_, others := p.splitRevisions()
	for _, set := range others {
		switch {
		case set.Revision == p.seen.Workload.Revision || set.Unavailable:
			continue
		case !set.UnavailableRequested:
			p.addActions(rollout.HoldRevisionUnavailable{Workload: p.seen.Spec.Workload, Hash: set.Hash})
		default:
			p.waitForObserved()
		}
		return false
	}
	return true
}

// mayRoll reports whether the workload's controller may replace pods: for a step of this version, with a budget of the executor.
func (p *planner) mayRoll() bool {
	w := p.seen.Workload
	return p.inPlace() && p.currentState().InStep() && w.TakenOver && !w.ReplicaSetsFrozen && w.DesiredReplicas > 0 && !p.newVersion() && !p.releaseStopped()
}

// updateStrategyFits stalls a release whose workload cannot replace its pods a few at a time.
func (p *planner) updateStrategyFits() bool {
	if !p.inPlace() || !p.seen.Workload.Recreate {
		return true
	}
	p.holdFor(rollout.Problem{Reason: rollout.ReasonInvalidSpec, Message: fmt.Sprintf(
		"%s has the strategy Recreate, which replaces all pods at once; set its spec.strategy.type to RollingUpdate, or use canary style "+
			"(spec.strategy.canary.enableExtraWorkloadForCanary: true): kubectl edit rollout %s -n %s",
		p.seen.Spec.Workload, p.seen.Name, p.seen.Namespace)})
	return false
}

// podsRolledBack reports whether no pod of an aborted or rolled back version is left in the workload. The controller of a Deployment only goes
// forward, so the executor scales the ReplicaSets. No more pods are missing or extra than the owner allows. New pods of an aborted release that
// traffic cannot reach any more take up room for stable pods, so they go at once.
func (p *planner) podsRolledBack() bool {
	w := p.seen.Workload
	if p.isBlueGreen() && w.UpdateMechanism == rollout.MechanismRollingUpdate {
		return p.newPodsGone()
	}
	stable, others := p.splitRevisions()
	switch {
	case !p.inPlace():
		return true
	case !p.graceOver():
		return false
	case w.UpdateMechanism != rollout.MechanismRollingUpdate && w.RevertsTo != p.m.StableRevision: // a lost pod would be created again as a new pod
		p.m.FinaliseReason = api.FinaliseRollback
		p.templateRestored()
		return false
	case len(others) == 0:
		return true
	case stable == nil:
		p.holdFor(p.stableMissing())
		return false
	case p.isBlueGreen():
		return p.newPodsGone()
	case w.UpdateMechanism != rollout.MechanismRollingUpdate:
		return p.podsReverted(others)
	case !w.TakenOver:
		p.takeOverWorkload()
		return false
	case !w.ReplicaSetsFrozen:
		p.addActions(rollout.FreezeWorkload{Workload: p.seen.Spec.Workload})
		return false
	case !w.Observed:
		p.waitForEvent("")
		return false
	}
	ready, atOnce := stable.Ready, p.currentState() == rollout.StateAborted && p.pinnedToStable()
	for _, set := range others {
		ready += set.Ready
	}
	up := min(w.DesiredReplicas-stable.Replicas, w.DesiredReplicas+w.MaxSurge-p.totalReplicas())
	if stable.Replicas == 0 {
		up = max(up, 1) // the controller would replace removed pods in a single ReplicaSet with pods
	}
	if up > 0 {
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: stable.Replicas + up})
		return false
	}
	spare := ready - w.ProtectedPods()
	for _, set := range others {
		unready := set.Replicas - set.Ready
		down := min(set.Replicas, unready+max(spare, 0))
		if atOnce {
			down = set.Replicas
		}
		if down > 0 {
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: set.Replicas - down})
			return false
		}
	}
	p.waitForEvent("")
	return false
}
