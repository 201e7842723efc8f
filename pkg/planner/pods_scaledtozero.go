package planner

import "sluice.dev/sluice/pkg/rollout"

// empty reports whether a Deployment has no pods and is told to have none, or has only just been told to have some.
func (p *planner) empty() bool {
	w := p.seen.Workload
	return w.Lever == rollout.LeverBudget && (w.Replicas == 0 || p.running() == 0 && p.stableRevision() != nil)
}

// stableRevision is what the workload has of the stable version, nil when that is gone.
func (p *planner) stableRevision() *rollout.ReplicaSet {
	sets := p.seen.Workload.Sets
	for i := range sets {
		if sets[i].Hash == p.m.StableRevision {
			return &sets[i]
		}
	}
	return nil
}

// comesBackStable readies a workload that is scaled to 0 during its release for its way back. The controller of a paused Deployment then
// brings all pods of a single ReplicaSet: that of the template if there is one, else the one that was made last. So those are deleted
// that would come before the stable one; nothing is lost, for the controller makes the new one again from the template.
func (p *planner) comesBackStable() bool {
	w, stable := p.seen.Workload, p.stableRevision()
	if w.Replicas > 0 || !w.Paused || !w.Observed || stable == nil || w.Lever != rollout.LeverBudget {
		return true
	}
	for _, set := range w.Sets {
		if set.Replicas == 0 && !set.Deleting && set.Hash != stable.Hash && (set.Revision == w.Revision || set.Made > stable.Made) {
			p.act(rollout.DeleteSet{Workload: p.seen.Spec.Workload, Hash: set.Hash})
		}
	}
	return len(p.actions) == 0
}

// backFromZero reports whether the workload has the stable pods again with which it comes back from 0. To let it go before would bring all
// pods in the new version.
func (p *planner) backFromZero() bool {
	if p.empty() {
		p.wait("waiting for the controller of %s to bring its pods back", p.seen.Spec.Workload)
		return false
	}
	return true
}
