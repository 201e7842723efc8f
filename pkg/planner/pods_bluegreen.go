package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// isBlueGreen reports whether the release is in blue-green style: the new pods run in parallel to all the stable pods, in the same workload.
func (p *planner) isBlueGreen() bool { return p.seen.Spec.Style == rollout.StyleBlueGreen }

// stepNumber returns the number of the current step.
func (p *planner) stepNumber() int32 {
	if p.isBlueGreen() && p.finalisingFor(api.FinaliseSuccess) {
		return p.seen.Spec.LastStep()
	}
	return p.m.Step
}

// releasedRevision returns the revision of the released version, regardless of the workload's present template.
func (p *planner) releasedRevision() rollout.Revision {
	for _, set := range p.seen.Workload.Revisions {
		if set.Revision == p.m.CanaryRevision {
			return set
		}
	}
	return rollout.Revision{}
}

// ensureBlueGreen reports whether the workload is paused with the ready new pods of the step in parallel to all its stable pods. Its own controller
// creates the new pods as a surge that never becomes available, so it deletes no old pod for them.
func (p *planner) ensureBlueGreen() bool {
	w, set, want := p.seen.Workload, p.templateRevision(), p.desiredNewPods()
	if !p.autoscalersDisabled() {
		return false
	}
	if w.UpdateMechanism != rollout.MechanismRollingUpdate {
		return p.ensureSurgedPods()
	}
	if set.Replicas == 0 && !p.routesRestored() || !p.stableKept() { // at 0 replicas, the workload has no pods for the traffic of its step
		return false
	}
	switch {
	case !set.Unavailable:
		p.waitForObserved()
		return false
	case set.Replicas < want:
		if next := p.surgeBudget(want); w.Paused || w.ReplicaSetsFrozen || w.Budget != next {
			p.addActions(rollout.ResumeRollingUpdate{Workload: p.seen.Spec.Workload, Budget: next})
			return false
		}
	case !p.restsAtStep() && (!w.Paused || w.ReplicaSetsFrozen || w.Budget != p.surgeBudget(p.totalReplicas()-w.DesiredReplicas)):
		// Without the pause, the controller could delete a ready pod, which never counts as available, to remove an extra pod of the old version.
		p.pauseAtStep()
		return false
	case set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= want && set.Ready > 0:
		return p.podsLabelled()
	}
	p.waitForPods()
	return false
}

// restsAtStep reports whether the workload's controller has nothing to do without a pause: the workload has exactly the stable pods that its owner wants,
// and the new pods of the step as its surge. OpenKruise leaves such a Deployment unpaused. If its owner has paused it, the executor pauses it too: it
// could not see otherwise that the owner ends this pause during the release.
func (p *planner) restsAtStep() bool {
	w, want := p.seen.Workload, p.desiredNewPods()
	stable, others := p.splitRevisions()
	return !w.Paused && !w.OwnerPaused && !w.ReplicaSetsFrozen && stable != nil && stable.Replicas == w.DesiredReplicas && len(others) == 1 &&
		others[0].Revision == w.Revision && others[0].Replicas == want && w.Budget == p.surgeBudget(want)
}

// stableKept reports whether the stable version has all the pods that its owner wants, and keeps them. Some may be missing after a change before its
// hold, or after the workload was scaled by a number of pods. The executor restores them with their ReplicaSet.
func (p *planner) stableKept() bool {
	w := p.seen.Workload
	stable, _ := p.splitRevisions()
	switch {
	case stable == nil:
		p.holdFor(p.stableMissing())
	case !w.TakenOver:
		p.takeOverWorkload()
	case !stable.UnavailableRequested:
		// After the executor restores the template, a complete and available ReplicaSet would look like the end of a rollout to the workload's
		// controller. It would then delete all other pods at once, even pods with traffic.
		p.addActions(rollout.HoldRevisionUnavailable{Workload: p.seen.Spec.Workload, Hash: stable.Hash})
	case !w.Observed || !stable.Unavailable:
		p.waitForObserved()
	case stable.Replicas >= w.DesiredReplicas:
		return p.otherRevisionsGone(stable)
	case p.replicaSetsFrozen():
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: w.DesiredReplicas})
	}
	return false
}

// otherRevisionsGone reports whether only the stable and the new version run. The workload's controller would delete stable pods for pods of a third
// version.
func (p *planner) otherRevisionsGone(stable *rollout.Revision) bool {
	w := p.seen.Workload
	for _, set := range w.Revisions {
		switch {
		case set.Replicas == 0 || set.Hash == stable.Hash || set.Revision == p.m.CanaryRevision:
			continue
		case !p.replicaSetsFrozen():
		case !p.pinnedToStable() && stable.Ready < w.FullCapacity():
			p.waitForStable(stable)
		default:
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		}
		return false
	}
	return true
}

func (p *planner) waitForStable(stable *rollout.Revision) {
	p.waitForEvent("waiting for the pods of the stable version: %d of %d are ready", stable.Ready, p.seen.Workload.DesiredReplicas)
}

// pauseAtStep pauses the workload with its present pods. Without extra pods, there is no surge to write.
func (p *planner) pauseAtStep() {
	if extra := p.totalReplicas() - p.seen.Workload.DesiredReplicas; extra > 0 {
		p.addActions(rollout.PauseWorkload{Workload: p.seen.Spec.Workload, Budget: p.surgeBudget(extra)})
	} else {
		p.addActions(rollout.FreezeWorkload{Workload: p.seen.Spec.Workload})
	}
}

// surgeBudget returns the budget for so many pods above all the stable pods. It is a percentage if a percentage gives the exact number. When a user
// scales a paused workload, its controller scales replicas and surge in proportion, so both versions keep their share.
func (p *planner) surgeBudget(pods int32) rollout.Budget {
	total, of := p.seen.Workload.DesiredReplicas, p.currentStep().Replicas
	if total == 0 { // its controller removes all pods; the surge counts if a user scales the workload up before they are gone
		share := int32(1)
		if of.Percent {
			share = max(share, of.Value)
		}
		return rollout.Budget{SurgePercent: share}
	}
	floor := rollout.Amount{Value: int32(100 * int64(pods) / int64(total)), Percent: true}
	for _, share := range []rollout.Amount{of, floor} {
		if share.Percent && share.Of(total) == pods {
			return rollout.Budget{SurgePercent: share.Value}
		}
	}
	return rollout.Budget{Surge: pods}
}

// holdNewVersion reports whether a new version has to wait, because its pods would mix with the pods of the blue-green release.
func (p *planner) holdNewVersion() bool {
	if p.isBlueGreen() {
		p.holdFor(rollout.Problem{Reason: rollout.ReasonNewVersionRefused, Message: fmt.Sprintf(
			"new version releasing detected in the progress of blue-green release, please rollback first: apply the manifest of the stable version, "+
				"or end the release under way: sluice abort %s -n %s", p.seen.Name, p.seen.Namespace)})
	}
	return p.isBlueGreen()
}

// autoscalersDisabled reports whether no autoscaler scales the workload. An autoscaler counts the pods of both versions, and would remove stable
// pods.
func (p *planner) autoscalersDisabled() bool {
	for _, s := range p.seen.Autoscalers {
		if !s.Disabled {
			p.addActions(rollout.DisableAutoscaler{Object: s.Object})
		}
	}
	return len(p.actions) == 0
}

// autoscalersRestored reports whether all autoscalers scale the workload again and have no mark of a release.
func (p *planner) autoscalersRestored() bool {
	for _, s := range p.seen.Autoscalers {
		if s.Disabled || s.Marked {
			p.addActions(rollout.RestoreAutoscaler{Object: s.Object})
		}
	}
	return len(p.actions) == 0
}
