package planner

import "sluice.dev/sluice/pkg/rollout"

// hasNoPods reports whether a Deployment has no pods and is told to have none, or has only just been told to have some.
func (p *planner) hasNoPods() bool {
	w := p.seen.Workload
	return w.UpdateMechanism == rollout.MechanismRollingUpdate && (w.DesiredReplicas == 0 || p.totalReplicas() == 0 && p.stableRevision() != nil)
}

// stableRevision is what the workload has of the stable version, nil when that is gone.
func (p *planner) stableRevision() *rollout.Revision {
	sets := p.seen.Workload.Revisions
	for i := range sets {
		if sets[i].Hash == p.m.StableRevision {
			return &sets[i]
		}
	}
	return nil
}

// prepareScaleFromZero prepares a workload that is scaled to 0 during its release for scaling up. The controller of a paused Deployment then creates
// all pods from a single ReplicaSet: the one of the template if it exists, else the newest one. So the executor deletes the ReplicaSets that would
// come before the stable one. Nothing is lost, because the controller creates the new one again from the template.
func (p *planner) prepareScaleFromZero() bool {
	w, stable := p.seen.Workload, p.stableRevision()
	if w.DesiredReplicas > 0 || !w.Paused || !w.Observed || stable == nil || w.UpdateMechanism != rollout.MechanismRollingUpdate {
		return true
	}
	for _, set := range w.Revisions {
		if set.Replicas == 0 && !set.Deleting && set.Hash != stable.Hash && (set.Revision == w.Revision || set.CreationOrder > stable.CreationOrder) {
			p.addActions(rollout.DeleteRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash})
		}
	}
	return len(p.actions) == 0
}

// scaledFromZero reports whether the workload has the stable pods again with which it comes back from 0. To let it go before would bring all
// pods in the new version.
func (p *planner) scaledFromZero() bool {
	if p.hasNoPods() {
		p.waitForEvent("waiting for the controller of %s to bring its pods back", p.seen.Spec.Workload)
		return false
	}
	return true
}
