package planner

import (
	"slices"
	"sluice.dev/sluice/pkg/rollout"
)

// This file replaces pods of workloads other than Deployments, a few at a time.

// ensurePartitioned reports whether a workload with a partition has the ready new pods of the step. The partition stays as the step set it: a lost
// new pod is created again as a new pod.
func (p *planner) ensurePartitioned() bool {
	w, want := p.seen.Workload, p.desiredNewPods()
	if !p.ensureTakenOver() || p.deleteStuckPods() {
		return false
	}
	partition := p.partitionFor(want)
	if w.Partition != partition {
		p.addActions(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: partition})
		return false
	}
	switch {
	case p.stepPodsReady():
		return p.podsLabelled()
	case w.Paused && partition.Of(w.DesiredReplicas) < w.DesiredReplicas: // a partition does not cause this pause
		p.holdFor(p.ownerPaused())
	default:
		p.waitForPods()
	}
	return false
}

// ensureDeleted reports whether a workload whose deleted pods come back new has the ready new pods of the step. It deletes only as many ready pods as
// the owner's budget allows.
func (p *planner) ensureDeleted() bool {
	if !p.ensureTakenOver() {
		return false
	}
	if p.stepPodsReady() {
		return p.podsLabelled()
	}
	w, set := p.seen.Workload, p.templateRevision()
	coming := max(0, w.DesiredReplicas-p.totalReplicas()) // pods that are deleted already come back new
	stable, others := p.splitRevisions()
	if stable != nil {
		others = append(others, *stable) // stable pods go last
	}
	for _, old := range others {
		if old.Revision == w.Revision {
			continue
		}
		if n := p.deletablePods(old, p.desiredNewPods()-set.Replicas-coming); n > 0 {
			p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: old.Hash, Pods: n})
			return false
		}
	}
	p.waitForPods()
	return false
}

// ensureTakenOver reports whether the executor has taken the workload over and its controller has observed that.
func (p *planner) ensureTakenOver() bool {
	switch w := p.seen.Workload; {
	case !w.TakenOver:
		p.takeOverWorkload()
		return false
	case !w.Observed:
		p.waitForObserved()
		return false
	}
	return true
}

// stepPodsReady reports whether the step has its new pods, and enough of them are ready.
func (p *planner) stepPodsReady() bool {
	set, want := p.templateRevision(), p.desiredNewPods()
	return set.Replicas >= want && set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= want && set.Ready > 0
}

// partitionFor returns the partition for so many new pods in all. Pods that are new already stay new. Extra pods that are about to go may all be new.
// The partition is a percentage if the step has one and a percentage gives the exact number. So it stays right when a user scales the workload.
func (p *planner) partitionFor(pods int32) rollout.Amount {
	w := p.seen.Workload
	if w.HasOrdinals {
		return rollout.Amount{Value: p.ordinalPartition(pods)}
	}
	stay := p.templateRevision().Replicas - max(0, p.totalReplicas()-w.DesiredReplicas)
	keep := max(0, w.DesiredReplicas-max(pods, stay))
	if !w.PercentPartition || !p.currentStep().Replicas.Percent || w.DesiredReplicas == 0 {
		return rollout.Amount{Value: keep}
	}
	share := rollout.Amount{Value: int32(100 * int64(keep) / int64(w.DesiredReplicas)), Percent: true} // its controller rounds up
	if share.Of(w.DesiredReplicas) != keep {
		return rollout.Amount{Value: keep}
	}
	return share
}

// ordinalPartition returns the ordinal from which on all pods may be new, for so many new pods in all. New pods below it came before the hold, and
// count. A lost pod may be created again as a new pod, and then one more old pod has to stay. Or it may be created again as an old pod, and then its
// ordinal has to stay.
func (p *planner) ordinalPartition(pods int32) int32 {
	keep := p.seen.Workload.DesiredReplicas - pods
	from := partitionKeeping(keep, p.ordinalsNotNew())
	if p.seen.Workload.RevertsTo == "" {
		from = max(from, partitionKeeping(keep, p.oldOrdinals()))
	}
	return from
}

// partitionKeeping returns the ordinal after the first keep of some sorted ordinals, or after the last one.
func partitionKeeping(keep int32, places []int32) int32 {
	n := min(int(keep), len(places))
	if n <= 0 {
		return 0
	}
	return places[n-1] + 1
}

// ordinalsNotNew returns the ordinals without a pod of the released version, lowest first.
func (p *planner) ordinalsNotNew() []int32 {
	var places []int32
	are := p.templateRevision().Ordinals
	for place := range p.seen.Workload.DesiredReplicas {
		if !slices.Contains(are, place) {
			places = append(places, place)
		}
	}
	return places
}

// deletablePods returns the number of pods of a revision that may be deleted: unready pods, and as many ready pods as the owner's budget allows.
func (p *planner) deletablePods(set rollout.Revision, most int32) int32 {
	w := p.seen.Workload
	ready := int32(0)
	for _, s := range w.Revisions {
		ready += s.Ready
	}
	if w.UpdateMechanism == rollout.MechanismOnDelete {
		ready = min(ready, w.Available) // the owner may require pods to be ready for a while
	}
	kept := w.DesiredReplicas - w.MaxUnavailable
	if !p.currentState().InStep() {
		kept = w.ProtectedPods()
	}
	return min(most, set.Replicas, set.Replicas-set.Ready+max(0, ready-kept))
}

// podsRolledBackInPlace reports whether a rollback has left no pod of the rejected version in a held workload whose own controller would delete all
// of them at once. The executor deletes pods that come back stable, or lowers the partition as stable pods become ready.
func (p *planner) podsRolledBackInPlace() bool {
	w := p.seen.Workload
	stable, others := p.splitRevisions()
	switch {
	case len(others) == 0 || stable == nil:
		return true
	case !p.graceOver() || !p.ensureTakenOver():
		return false
	case w.UpdateMechanism == rollout.MechanismOnDelete || w.RevertsTo == "" || w.RevertsTo == stable.Hash:
		return p.podsReverted(others)
	}
	unready, ready := int32(0), stable.Ready
	for _, set := range others {
		unready, ready = unready+set.Replicas-set.Ready, ready+set.Ready
	}
	if next := p.partitionFor(stable.Replicas + unready + max(0, ready-w.ProtectedPods())); w.Partition != next {
		p.addActions(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: next})
		return false
	}
	p.waitForEvent("waiting for the pods of the stable version: %d of %d are ready", stable.Ready, w.DesiredReplicas)
	return false
}

// deleteStuckPods deletes unready pods of two kinds: pods of a version that is no longer wanted, and pods of an approved version that a newer version
// replaced before it had all pods. The controller of an ordered StatefulSet waits for them regardless of its template. If deleted pods come back new,
// it deletes no more pods than the step needs new ones.
func (p *planner) deleteStuckPods() bool {
	w := p.seen.Workload
	if w.UpdateMechanism != rollout.MechanismPartition || !w.Observed {
		return false
	}
	for _, set := range w.Revisions {
		returns := set.Hash == p.m.StableRevision && (w.RevertsTo == "" || w.RevertsTo == set.Hash)
		unready := set.Replicas - set.Ready
		if !w.HasOrdinals && w.RevertsTo == "" && p.currentState().InStep() {
			unready = min(unready, p.desiredNewPods()-p.templateRevision().Replicas-max(0, w.DesiredReplicas-p.totalReplicas()))
		}
		if unready > 0 && set.Revision != w.Revision && !returns {
			p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: unready})
			return true
		}
	}
	return false
}

// podsReverted reports whether an aborted release has left no pod of its version in a workload whose held controller replaces deleted pods with
// stable pods.
func (p *planner) podsReverted(others []rollout.Revision) bool {
	if !p.seen.Workload.Observed {
		p.waitForEvent("")
		return false
	}
	for _, set := range others {
		if n := p.deletablePods(set, set.Replicas); n > 0 {
			p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: n})
			return false
		}
	}
	p.waitForEvent("")
	return false
}
