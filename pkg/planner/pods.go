package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/rollout"
)

// inPlace reports whether the workload itself creates the new pods: they replace old pods, or run in parallel in blue-green style.
func (p *planner) inPlace() bool {
	return p.seen.Spec.Style == rollout.StylePartition || p.seen.Spec.Style == rollout.StyleBlueGreen
}

// templateRevision returns the workload's revision of the released version; the zero value if it does not exist.
func (p *planner) templateRevision() rollout.Revision {
	if w := p.seen.Workload; w != nil {
		for _, set := range w.Revisions {
			if set.Revision == w.Revision {
				return set
			}
		}
	}
	return rollout.Revision{Unavailable: true}
}

// desiredNewPods returns the number of new pods of the current step. A share below 100 % leaves an old pod, as in OpenKruise.
func (p *planner) desiredNewPods() int32 {
	total := p.seen.Workload.DesiredReplicas
	if p.m.RollbackReplicas > 0 {
		return max(0, total-p.podsLeftByStep())
	}
	return p.podsOfStep(total)
}

// stablePods returns the replicas of the stable revision.
func (p *planner) stablePods() int32 {
	for _, set := range p.seen.Workload.Revisions {
		if set.Hash == p.m.StableRevision {
			return set.Replicas
		}
	}
	return 0
}

// newHash returns the hash that distinguishes the new pods from the stable pods, "" while there are no new pods.
func (p *planner) newHash() string {
	if p.isBlueGreen() {
		return p.releasedRevision().Hash
	}
	if p.inPlace() {
		return p.templateRevision().Hash
	}
	return p.seen.Canary.Hash
}

// totalReplicas returns the replicas of all revisions of the workload.
func (p *planner) totalReplicas() int32 {
	var n int32
	for _, set := range p.seen.Workload.Revisions {
		n += set.Replicas
	}
	return n
}

// splitRevisions returns the stable ReplicaSet, or nil if it is gone, and the others with pods, newest first.
func (p *planner) splitRevisions() (stable *rollout.Revision, others []rollout.Revision) {
	sets := p.seen.Workload.Revisions
	for i := len(sets) - 1; i >= 0; i-- {
		switch {
		case sets[i].Hash == p.m.StableRevision:
			stable = &sets[i]
		case sets[i].Replicas > 0:
			others = append(others, sets[i])
		}
	}
	return stable, others
}

// pinnedToStable reports whether only the stable version gets traffic once the routes are restored.
func (p *planner) pinnedToStable() bool {
	for _, backend := range p.serviceBackends() {
		if backend.StableService == nil || backend.PinnedHash() != p.m.StableRevision {
			return false
		}
	}
	return len(p.seen.Spec.Routing) > 0
}

func (p *planner) stableMissing() rollout.Problem {
	return rollout.Problem{Reason: rollout.ReasonStableMissing, Message: fmt.Sprintf(
		"The revision of the stable version %s is gone, so its template cannot be restored; apply the manifest of the version that should run: kubectl edit %s -n %s; "+
			"or release the new one after all: sluice retry %s -n %s",
		p.m.StableRevision, p.seen.Spec.Workload.KubectlName(), p.seen.Namespace, p.seen.Name, p.seen.Namespace)}
}

// ensureReplaced reports whether the workload has the ready new pods of the step. It never reduces them: a jump to an earlier step moves only
// traffic.
func (p *planner) ensureReplaced() bool {
	switch p.seen.Workload.UpdateMechanism {
	case rollout.MechanismPartition:
		return p.ensurePartitioned()
	case rollout.MechanismOnDelete:
		return p.ensureDeleted()
	}
	return p.ensureRolled()
}

// newPods returns the numbers of pods and of ready pods of the new version, in the workload and in the canary.
func (p *planner) newPods() (replicas, ready int32) {
	if p.currentState().Releasing() {
		early := p.earlyPods()
		if p.m.RollbackReplicas > 0 {
			early = p.templateRevision()
		}
		replicas, ready = early.Replicas, early.Ready
	}
	if canary := p.seen.Canary; canary != nil && canary.Ours {
		replicas += canary.Replicas
		ready += canary.Available
	}
	return replicas, ready
}
