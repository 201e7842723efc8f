package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// isBlueGreen reports whether the new pods run in parallel with all stable ones, in the same workload: blue-green style.
func (p *planner) isBlueGreen() bool { return p.seen.Spec.Style == rollout.StyleBlueGreen }

// stepNumber is the number of the step that is being carried out.
func (p *planner) stepNumber() int32 {
	if p.isBlueGreen() && p.finalisingFor(api.FinaliseSuccess) {
		return p.seen.Spec.LastStep()
	}
	return p.m.Step
}

// releasedRevision is the revision of the released version in the workload, even if its template has changed since.
func (p *planner) releasedRevision() rollout.Revision {
	for _, set := range p.seen.Workload.Revisions {
		if set.Revision == p.m.CanaryRevision {
			return set
		}
	}
	return rollout.Revision{}
}

// ensureBlueGreen reports whether the workload has the new pods of the step, ready, in parallel with all stable ones, and is paused. Its own
// controller creates them as a surge that never becomes available, so it deletes no old pod for them.
func (p *planner) ensureBlueGreen() bool {
	w, set, want := p.seen.Workload, p.templateRevision(), p.desiredNewPods()
	if !p.autoscalersDisabled() {
		return false
	}
	if w.UpdateMechanism != rollout.MechanismRollingUpdate {
		return p.ensureSurgedPods()
	}
	if set.Replicas == 0 && !p.routesRestored() || !p.stableKept() { // scaled to 0, it has nothing for the traffic of its step
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
	case !w.Paused || w.ReplicaSetsFrozen || w.Budget != p.surgeBudget(p.totalReplicas()-w.DesiredReplicas):
		// Without the pause a pod too many of the old version would be taken for one that is ready and never available.
		p.pauseAtStep()
		return false
	case set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= want && set.Ready > 0:
		return p.podsLabelled()
	}
	p.waitForPods()
	return false
}

// stableKept reports whether the stable version has all the pods that its owner wants, and keeps them. A change that came too early, or a change of
// the replicas, may have removed some; their ReplicaSet brings them back.
func (p *planner) stableKept() bool {
	w := p.seen.Workload
	stable, _ := p.splitRevisions()
	switch {
	case stable == nil:
		p.holdFor(p.stableMissing())
	case !w.TakenOver:
		p.takeOverWorkload()
	case !stable.UnavailableRequested:
		// When the executor restores its template, the workload's controller would take a complete and available ReplicaSet for the end of a rollout. It
		// would delete all other pods at once, with their traffic.
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

// otherRevisionsGone reports whether only the stable and the new version run. The workload's controller would delete stable pods in place of the
// pods of a third version.
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

// pauseAtStep pauses the workload with the pods that it has. With none too many there is no surge to write.
func (p *planner) pauseAtStep() {
	if extra := p.totalReplicas() - p.seen.Workload.DesiredReplicas; extra > 0 {
		p.addActions(rollout.PauseWorkload{Workload: p.seen.Spec.Workload, Budget: p.surgeBudget(extra)})
	} else {
		p.addActions(rollout.FreezeWorkload{Workload: p.seen.Spec.Workload})
	}
}

// surgeBudget is the budget for so many pods on top of all the stable ones. It is a percentage where one says the number exactly: a paused
// workload that is scaled brings its pods to replicas and surge, in proportion, and so both versions keep their share.
func (p *planner) surgeBudget(pods int32) rollout.Budget {
	total, of := p.seen.Workload.DesiredReplicas, p.currentStep().Replicas
	if total == 0 {
		return rollout.Budget{Surge: pods}
	}
	floor := rollout.Amount{Value: int32(100 * int64(pods) / int64(total)), Percent: true}
	for _, share := range []rollout.Amount{of, floor} {
		if share.Percent && share.Of(total) == pods {
			return rollout.Budget{SurgePercent: share.Value}
		}
	}
	return rollout.Budget{Surge: pods}
}

// holdNewVersion reports whether a new version has to wait: it would mix with the version that runs in parallel with the stable one.
func (p *planner) holdNewVersion() bool {
	if p.isBlueGreen() {
		p.holdFor(rollout.Problem{Reason: rollout.ReasonNewVersionRefused, Message: fmt.Sprintf(
			"new version releasing detected in the progress of blue-green release, please rollback first: apply the manifest of the stable version, "+
				"or end the release under way: sluice abort %s -n %s", p.seen.Name, p.seen.Namespace)})
	}
	return p.isBlueGreen()
}

// autoscalersDisabled reports whether no autoscaler scales the workload. It counts the pods of both versions, and would take the stable ones.
func (p *planner) autoscalersDisabled() bool {
	for _, s := range p.seen.Autoscalers {
		if !s.Disabled {
			p.addActions(rollout.DisableAutoscaler{Object: s.Object})
		}
	}
	return len(p.actions) == 0
}

// autoscalersRestored reports whether the autoscalers have the workload back, and nothing of ours is on them.
func (p *planner) autoscalersRestored() bool {
	for _, s := range p.seen.Autoscalers {
		if s.Disabled || s.Marked {
			p.addActions(rollout.RestoreAutoscaler{Object: s.Object})
		}
	}
	return len(p.actions) == 0
}
