package rollout

// This file replaces pods of workloads that are no Deployments, a few at a time.

// ensurePartitioned reports whether a workload that goes by a partition has the new pods of the step, ready. The partition stays where
// the step put it: a new pod that is lost comes back new.
func (p *planner) ensurePartitioned() bool {
	w, want := p.seen.Workload, p.wanted()
	if !p.taken() || p.stuckReplaced() {
		return false
	}
	if partition := p.partitionFor(max(want, p.newSet().Replicas)); w.Partition != partition {
		p.act(PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: partition})
		return false
	}
	switch {
	case p.replaced():
		return p.podsLabelled()
	case w.Paused: // not by its partition
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
			p.act(ReplacePods{Workload: p.seen.Spec.Workload, Hash: old.Hash, Pods: n})
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

// partitionFor leaves all but so many pods in the version that they have. It is a percentage where the step is one and where that says the
// number exactly, so that it stays right when the workload is scaled.
func (p *planner) partitionFor(pods int32) Amount {
	w := p.seen.Workload
	keep := max(0, w.Replicas-pods)
	if !w.Shares || !p.step().Replicas.Percent || w.Replicas == 0 {
		return Amount{Value: keep}
	}
	share := Amount{Value: int32(100 * int64(keep) / int64(w.Replicas)), Percent: true} // its controller rounds up
	if share.Of(w.Replicas) != keep {
		return Amount{Value: keep}
	}
	return share
}

// mayGo is how many pods of a revision may be deleted: those that are not ready, and of the others as many as the owner lets be missing.
func (p *planner) mayGo(set ReplicaSet, most int32) int32 {
	w := p.seen.Workload
	ready := int32(0)
	for _, s := range w.Sets {
		ready += s.Ready
	}
	if w.Lever == LeverDeletion {
		ready = min(ready, w.Available) // its owner may want pods to have been ready for a while
	}
	spare := max(0, ready-(w.Replicas-w.MaxUnavailable))
	return min(most, set.Replicas, set.Replicas-set.Ready+spare)
}

// stuckReplaced deletes pods that are not ready and of a version that nobody wants any more: the controller of an ordered StatefulSet waits
// for them whatever its template says.
func (p *planner) stuckReplaced() bool {
	w := p.seen.Workload
	if w.Lever != LeverPartition || !w.Observed {
		return false
	}
	for _, set := range w.Sets {
		if unready := set.Replicas - set.Ready; unready > 0 && set.Revision != w.Revision && set.Hash != p.m.StableRevision {
			p.act(ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: unready})
			return true
		}
	}
	return false
}

// reverted reports whether an aborted release has left no pod of its version in a workload whose held controller makes stable ones of
// those that are deleted.
func (p *planner) reverted(others []ReplicaSet) bool {
	if !p.seen.Workload.Observed {
		p.wait("")
		return false
	}
	for _, set := range others {
		if n := p.mayGo(set, set.Replicas); n > 0 {
			p.act(ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: n})
			return false
		}
	}
	p.wait("")
	return false
}
