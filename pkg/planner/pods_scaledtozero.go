package planner

import "sluice.dev/sluice/pkg/rollout"

// hasNoPods reports whether a Deployment has no pods because it has 0 replicas, or had them until a moment ago.
func (p *planner) hasNoPods() bool {
	w := p.seen.Workload
	return w.UpdateMechanism == rollout.MechanismRollingUpdate && (w.DesiredReplicas == 0 || p.totalReplicas() == 0 && p.stableRevision() != nil)
}

// stableRevision returns the workload's stable revision, or nil if it is gone.
func (p *planner) stableRevision() *rollout.Revision {
	sets := p.seen.Workload.Revisions
	for i := range sets {
		if sets[i].Hash == p.m.StableRevision {
			return &sets[i]
		}
	}
	return nil
}

// prepareScaleFromZero prepares a workload that a user scaled to 0 during its release. When it is scaled up, the controller of a paused Deployment
// creates all pods in a single ReplicaSet. That is the ReplicaSet of the template, or else the one created last. So the executor deletes the
// ReplicaSets that would precede the stable one. Nothing is lost, because the controller creates the new one again from the template.
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

// scaledFromZero reports whether a workload that was scaled up from 0 has its stable pods again. If the executor resumed it earlier, the controller
// would create all pods in the new version.
func (p *planner) scaledFromZero() bool {
	if p.hasNoPods() {
		p.waitForEvent("waiting for the controller of %s to bring its pods back", p.seen.Spec.Workload)
		return false
	}
	return true
}
