package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file takes a version back step by step: it is a release of the stable version, which still has some pods. If an event stops that release, the
// remaining pods go back at once, because that is safest.

// rollBack ends the release of a version that was taken back, for one in batches or at once.
func (p *planner) rollBack() {
	message := "The workload has been rolled back and the rollout process will be canceled"
	yes, why := p.seen.Spec.InBatches()
	switch {
	case yes && p.currentState() != rollout.StateAborted && p.m.FinaliseReason != api.FinaliseWorkloadGone && p.podsToRollBack() > 0:
		p.startFinalising(api.FinaliseRollbackInBatch, "The workload has been rolled back, and its pods go back in batches, from step 1 on")
		return
	case why != "":
		message += fmt.Sprintf(". All pods go back at once, and the annotation %s has no effect: %s", api.AnnotationRollbackInBatch, why)
	}
	p.startFinalising(api.FinaliseRollback, message)
}

// rollingBackInBatches reports whether a rollback in batches is under way, and still wanted to be one.
func (p *planner) rollingBackInBatches() bool {
	yes, _ := p.seen.Spec.InBatches()
	return yes && p.m.RollbackReplicas > 0
}

// podsToRollBack is how many pods a rollback in batches that begins now has to bring back, 0 where none is to begin.
func (p *planner) podsToRollBack() int32 {
	if yes, _ := p.seen.Spec.InBatches(); !yes || !p.rolledBack() || p.seen.Workload.UpdateMechanism != rollout.MechanismPartition {
		return 0
	}
	return p.totalReplicas() - p.templateRevision().Replicas
}

// keptPodsLabelled reports whether the pods that need no update are told apart from those that the rollback brings back, which are counted once its
// controller has seen that nothing may go by itself.
func (p *planner) keptPodsLabelled() bool {
	w := p.seen.Workload
	if !w.Observed {
		p.waitForObserved()
		return false
	}
	p.m.RollbackReplicas = p.totalReplicas() - p.templateRevision().Replicas
	if w.UnlabelledKept > 0 {
		p.addActions(rollout.LabelKeptPods{RolloutID: rollout.RollbackID(w.RolloutID, w.Revision), Revision: w.Revision})
		return false
	}
	return true
}

// podsLeftByStep is how many pods the current step leaves in the version that is taken back: its share is of those that have to go.
func (p *planner) podsLeftByStep() int32 {
	return p.m.RollbackReplicas - p.podsOfStep(p.m.RollbackReplicas)
}

// ensureRolledBack reports whether no more pods are left of the version that is taken back than the step leaves there, and those that came in
// their place are ready.
func (p *planner) ensureRolledBack() bool {
	if !p.ensureTakenOver() {
		return false
	}
	w, left := p.seen.Workload, p.totalReplicas()-p.templateRevision().Replicas
	p.m.RollbackReplicas = max(p.m.RollbackReplicas, left) // its controller may make more of them for a workload that grows
	if p.deleteStuckRollbackPods(left - p.podsLeftByStep()) {
		return false
	}
	partition := p.rollbackPartition(p.podsLeftByStep())
	switch {
	case w.Partition != partition:
		p.addActions(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: partition})
	case left <= p.podsLeftByStep() && (p.desiredNewPods() == 0 || p.stepPodsReady()):
		return p.podsLabelled()
	case w.Paused && partition.Of(w.DesiredReplicas) < w.DesiredReplicas: // not by its partition
		p.holdFor(p.ownerPaused())
	default:
		p.waitForPods()
	}
	return false
}

// rollbackPartition lets the workload's controller leave so many pods in the version that is taken back. It is a number even if the step has a
// percentage: a percentage of a growing workload would bring in more of them. An ordered workload replaces its last pods first. Its pods may run
// either version in any order, because a lost pod comes back in the stable one.
func (p *planner) rollbackPartition(stays int32) rollout.Amount {
	w := p.seen.Workload
	if !w.HasOrdinals {
		return rollout.Amount{Value: max(0, min(stays, w.DesiredReplicas-p.templateRevision().Replicas))}
	}
	left := p.oldOrdinals()
	if len(left) <= int(stays) {
		return p.partitionKeepingAll(left)
	}
	return rollout.Amount{Value: partitionKeeping(stays, left)}
}

// partitionKeepingAll is a partition that keeps each pod of the version that is taken back.
func (p *planner) partitionKeepingAll(left []int32) rollout.Amount {
	partition := p.seen.Workload.Partition
	if n := len(left); n > 0 && partition.Value <= left[n-1] {
		return rollout.Amount{Value: left[n-1] + 1}
	}
	return partition
}

// oldOrdinals are the places of the pods of the version that is taken back, the lowest first, without those that are about to go.
func (p *planner) oldOrdinals() []int32 {
	w := p.seen.Workload
	var left []int32
	for _, set := range w.Revisions {
		if set.Revision != w.Revision {
			left = append(left, set.Ordinals...)
		}
	}
	left = slices.DeleteFunc(left, func(place int32) bool { return place >= w.DesiredReplicas })
	slices.Sort(left)
	return left
}

// deleteStuckRollbackPods deletes up to so many unready pods of the version that is taken back, as part of the step: the controller of an ordered
// workload waits for them regardless of its template. No other pod may go meanwhile. If a lost pod comes back in its own version, a deletion does
// not help.
func (p *planner) deleteStuckRollbackPods(most int32) bool {
	w := p.seen.Workload
	if !w.HasOrdinals || w.RevertsTo != "" || most <= 0 {
		return false
	}
	for _, set := range w.Revisions {
		unready := set.Replicas - set.Ready
		if unready <= 0 || set.Revision == w.Revision {
			continue
		}
		if all := p.partitionKeepingAll(p.oldOrdinals()); w.Partition != all {
			p.addActions(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: all})
		} else {
			p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: min(unready, most)})
		}
		return true
	}
	return false
}
