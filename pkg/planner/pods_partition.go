package planner

import (
	"slices"
	"sluice.dev/sluice/pkg/rollout"
)

// This file replaces pods of workloads that are no Deployments, a few at a time.

// ensurePartitioned reports whether a workload that goes by a partition has the new pods of the step, ready. The partition stays where
// the step put it: a new pod that is lost comes back new.
func (p *planner) ensurePartitioned() bool {
	w, want := p.seen.Workload, p.wanted()
	if !p.taken() || p.stuckReplaced() {
		return false
	}
	partition := p.partitionFor(want)
	if w.Partition != partition {
		p.act(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: partition})
		return false
	}
	switch {
	case p.replaced():
		return p.podsLabelled()
	case w.Paused && partition.Of(w.Replicas) < w.Replicas: // not by its partition
		p.holdFor(p.ownerPaused())
	default:
		p.waitForPods()
	}
	return false
}

// ensureDeleted reports whether a workload that makes anew what is deleted has the new pods of the step, ready. Pods that serve are
// deleted as far as its owner lets them be missing.
func (p *planner) ensureDeleted() bool {
	if !p.taken() {
		return false
	}
	if p.replaced() {
		return p.podsLabelled()
	}
	w, set := p.seen.Workload, p.newSet()
	coming := max(0, w.Replicas-p.running()) // what is deleted already comes back new
	stable, others := p.sides()
	if stable != nil {
		others = append(others, *stable) // last of all
	}
	for _, old := range others {
		if old.Revision == w.Revision {
			continue
		}
		if n := p.mayGo(old, p.wanted()-set.Replicas-coming); n > 0 {
			p.act(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: old.Hash, Pods: n})
			return false
		}
	}
	p.waitForPods()
	return false
}

// taken reports whether what holds the workload is ours and its controller knows.
func (p *planner) taken() bool {
	switch w := p.seen.Workload; {
	case !w.Parked:
		p.park()
		return false
	case !w.Observed:
		p.waitToBeSeen()
		return false
	}
	return true
}

// replaced reports whether there are as many new pods as the step wants, and as many of them ready as it needs.
func (p *planner) replaced() bool {
	set, want := p.newSet(), p.wanted()
	return set.Replicas >= want && set.Ready+p.seen.Spec.FailureThreshold.Of(set.Replicas) >= want && set.Ready > 0
}

// partitionFor leaves all but so many pods in the version that they have, and those that are new already new. Of pods that are about to go, for
// there are too many, all may be new. It is a percentage where the step is one and where that says the number exactly, so that it stays right
// when the workload is scaled.
func (p *planner) partitionFor(pods int32) rollout.Amount {
	w := p.seen.Workload
	if w.Ordered {
		return rollout.Amount{Value: p.placeAfter(pods)}
	}
	stay := p.newSet().Replicas - max(0, p.running()-w.Replicas)
	keep := max(0, w.Replicas-max(pods, stay))
	if !w.Shares || !p.step().Replicas.Percent || w.Replicas == 0 {
		return rollout.Amount{Value: keep}
	}
	share := rollout.Amount{Value: int32(100 * int64(keep) / int64(w.Replicas)), Percent: true} // its controller rounds up
	if share.Of(w.Replicas) != keep {
		return rollout.Amount{Value: keep}
	}
	return share
}

// placeAfter is the place from which on all pods of an ordered workload may be new, for so many to be new in all. New ones below it came
// before the hold, and count. A pod that is lost may come back new, so that one more of the old ones has to stay, or old, for which
// its place has to stay.
func (p *planner) placeAfter(pods int32) int32 {
	keep := p.seen.Workload.Replicas - pods
	from := placeKeeping(keep, p.placesNotNew())
	if p.seen.Workload.RevertsTo == "" {
		from = max(from, placeKeeping(keep, p.placesLeft()))
	}
	return from
}

// placeKeeping is the place after the first so many of some places, the lowest of which come first, or after all that there are.
func placeKeeping(keep int32, places []int32) int32 {
	n := min(int(keep), len(places))
	if n <= 0 {
		return 0
	}
	return places[n-1] + 1
}

// placesNotNew are the places without a pod of the version under way, the lowest first.
func (p *planner) placesNotNew() []int32 {
	var places []int32
	are := p.newSet().Places
	for place := range p.seen.Workload.Replicas {
		if !slices.Contains(are, place) {
			places = append(places, place)
		}
	}
	return places
}

// mayGo is how many pods of a revision may be deleted: those that are not ready, and of the others as many as the owner lets be missing.
func (p *planner) mayGo(set rollout.ReplicaSet, most int32) int32 {
	w := p.seen.Workload
	ready := int32(0)
	for _, s := range w.Sets {
		ready += s.Ready
	}
	if w.Lever == rollout.LeverDeletion {
		ready = min(ready, w.Available) // its owner may want pods to have been ready for a while
	}
	kept := w.Replicas - w.MaxUnavailable
	if !p.state().InStep() {
		kept = w.Kept()
	}
	return min(most, set.Replicas, set.Replicas-set.Ready+max(0, ready-kept))
}

// returnedInPlace reports whether a rollback has left no pod of the version that is taken back in a workload that is held, and whose own controller would take
// all of them at once. The executor deletes pods that come back stable, or lowers the partition as stable pods become ready.
func (p *planner) returnedInPlace() bool {
	w := p.seen.Workload
	stable, others := p.sides()
	switch {
	case len(others) == 0 || stable == nil:
		return true
	case !p.graceOver() || !p.taken():
		return false
	case w.Lever == rollout.LeverDeletion || w.RevertsTo == "" || w.RevertsTo == stable.Hash:
		return p.reverted(others)
	}
	unready, ready := int32(0), stable.Ready
	for _, set := range others {
		unready, ready = unready+set.Replicas-set.Ready, ready+set.Ready
	}
	if next := p.partitionFor(stable.Replicas + unready + max(0, ready-w.Kept())); w.Partition != next {
		p.act(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: next})
		return false
	}
	p.wait("waiting for the pods of the stable version: %d of %d are ready", stable.Ready, w.Replicas)
	return false
}

// stuckReplaced deletes pods that are not ready and that do not come back as what they are: those of a version that nobody wants any more, and
// those of one that was agreed to and replaced by a newer one before it had all pods. The controller of an ordered StatefulSet waits for
// them whatever its template says. Of a workload that makes the new version of each pod that is deleted, no more go than the step wants new ones.
func (p *planner) stuckReplaced() bool {
	w := p.seen.Workload
	if w.Lever != rollout.LeverPartition || !w.Observed {
		return false
	}
	for _, set := range w.Sets {
		returns := set.Hash == p.m.StableRevision && (w.RevertsTo == "" || w.RevertsTo == set.Hash)
		unready := set.Replicas - set.Ready
		if !w.Ordered && w.RevertsTo == "" && p.state().InStep() {
			unready = min(unready, p.wanted()-p.newSet().Replicas-max(0, w.Replicas-p.running()))
		}
		if unready > 0 && set.Revision != w.Revision && !returns {
			p.act(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: unready})
			return true
		}
	}
	return false
}

// reverted reports whether an aborted release has left no pod of its version in a workload whose held controller makes stable ones of
// those that are deleted.
func (p *planner) reverted(others []rollout.ReplicaSet) bool {
	if !p.seen.Workload.Observed {
		p.wait("")
		return false
	}
	for _, set := range others {
		if n := p.mayGo(set, set.Replicas); n > 0 {
			p.act(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: n})
			return false
		}
	}
	p.wait("")
	return false
}
