package planner

import (
	"slices"
	"sluice.dev/sluice/pkg/rollout"
)

// This file replaces pods of workloads that are no Deployments, a few at a time.

// ensurePartitioned reports whether a workload that goes by a partition has the new pods of the step, ready. The partition stays where
// the step put it: a new pod that is lost comes back new.
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
	case w.Paused && partition.Of(w.DesiredReplicas) < w.DesiredReplicas: // not by its partition
		p.holdFor(p.ownerPaused())
	default:
		p.waitForPods()
	}
	return false
}

// ensureDeleted reports whether a workload that replaces deleted pods has the new pods of the step, ready. The executor deletes serving pods as far
// as the owner lets them be missing.
func (p *planner) ensureDeleted() bool {
	if !p.ensureTakenOver() {
		return false
	}
	if p.stepPodsReady() {
		return p.podsLabelled()
	}
	w, set := p.seen.Workload, p.templateRevision()
	coming := max(0, w.DesiredReplicas-p.totalReplicas()) // deleted pods come back in the new version
	stable, others := p.splitRevisions()
	if stable != nil {
		others = append(others, *stable) // last of all
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

// ensureTakenOver reports whether what holds the workload is ours and its controller knows.
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

// stepPodsReady reports whether there are as many new pods as the step wants, and as many of them ready as it needs.
func (p *planner) stepPodsReady() bool {
	set, want := p.templateRevision(), p.desiredNewPods()
	return set.Replicas >= want && set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= want && set.Ready > 0
}

// partitionFor leaves all but so many pods in the version that they have, and those that are new already new. Of pods that are about to go, for
// there are too many, all may be new. It is a percentage where the step is one and where that says the number exactly, so that it stays right
// when the workload is scaled.
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

// ordinalPartition is the place from which on all pods of an ordered workload may be new, for so many to be new in all. New ones below it came
// before the hold, and count. A pod that is lost may come back new, so that one more of the old ones has to stay, or old, for which
// its place has to stay.
func (p *planner) ordinalPartition(pods int32) int32 {
	keep := p.seen.Workload.DesiredReplicas - pods
	from := partitionKeeping(keep, p.ordinalsNotNew())
	if p.seen.Workload.RevertsTo == "" {
		from = max(from, partitionKeeping(keep, p.oldOrdinals()))
	}
	return from
}

// partitionKeeping is the ordinal after the first so many of some ordinals, lowest first, or after all of them.
func partitionKeeping(keep int32, places []int32) int32 {
	n := min(int(keep), len(places))
	if n <= 0 {
		return 0
	}
	return places[n-1] + 1
}

// ordinalsNotNew are the places without a pod of the version under way, the lowest first.
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

// deletablePods is how many pods of a revision may be deleted: those that are not ready, and of the others as many as the owner lets be missing.
func (p *planner) deletablePods(set rollout.Revision, most int32) int32 {
	w := p.seen.Workload
	ready := int32(0)
	for _, s := range w.Revisions {
		ready += s.Ready
	}
	if w.UpdateMechanism == rollout.MechanismOnDelete {
		ready = min(ready, w.Available) // its owner may want pods to have been ready for a while
	}
	kept := w.DesiredReplicas - w.MaxUnavailable
	if !p.currentState().InStep() {
		kept = w.ProtectedPods()
	}
	return min(most, set.Replicas, set.Replicas-set.Ready+max(0, ready-kept))
}

// podsRolledBackInPlace reports whether a rollback has left no pod of the version that is taken back in a workload that is held, and whose own controller would take
// all of them at once. The executor deletes pods that come back stable, or lowers the partition as stable pods become ready.
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

// deleteStuckPods deletes unready pods that come back in another version: pods of an unwanted version, and pods of an approved version that a newer
// one replaced before it had all pods. The controller of an ordered StatefulSet waits for them regardless of its template. If the controller
// replaces each deleted pod by a pod of the new version, no more go than the step wants new ones.
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

// podsReverted reports whether an aborted release has left no pod of its version in a workload whose held controller makes stable ones of
// those that are deleted.
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
