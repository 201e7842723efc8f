package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file rolls a version back step by step, as a release of the stable version, which has some pods already. An event that stops this release
// turns it into a rollback at once, which is the safest way.

// rollBack ends the release of a rejected version. A rollback in batches follows, or a rollback at once.
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

// rollingBackInBatches reports whether a rollback in batches is under way, and the spec still asks for it.
func (p *planner) rollingBackInBatches() bool {
	yes, _ := p.seen.Spec.InBatches()
	return yes && p.m.RollbackReplicas > 0
}

// podsToRollBack returns the number of pods that a new rollback in batches has to restore; 0 if no such rollback begins.
func (p *planner) podsToRollBack() int32 {
	if yes, _ := p.seen.Spec.InBatches(); !yes || !p.rolledBack() || p.seen.Workload.UpdateMechanism != rollout.MechanismPartition {
		return 0
	}
	return p.totalReplicas() - p.templateRevision().Replicas
}

// keptPodsLabelled reports whether the pods that need no update have labels that distinguish them from the pods of the rollback. The planner counts
// those pods once the controller has observed that it must replace none by itself.
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

// podsLeftByStep returns the number of pods that the current step leaves in the rejected version. The step's share refers to the pods that have to
// go.
func (p *planner) podsLeftByStep() int32 {
	return p.m.RollbackReplicas - p.podsOfStep(p.m.RollbackReplicas)
}

// ensureRolledBack reports whether the rejected version has no more pods than the step leaves, and their replacements are ready.
func (p *planner) ensureRolledBack() bool {
	if !p.ensureTakenOver() {
		return false
	}
	w, left := p.seen.Workload, p.totalReplicas()-p.templateRevision().Replicas
	p.m.RollbackReplicas = max(p.m.RollbackReplicas, left) // the controller may create more of them for a workload that grows
	if p.deleteStuckRollbackPods(left - p.podsLeftByStep()) {
		return false
	}
	partition := p.rollbackPartition(p.podsLeftByStep())
	switch {
	case w.Partition != partition:
		p.addActions(rollout.PartitionWorkload{Workload: p.seen.Spec.Workload, Partition: partition})
	case left <= p.podsLeftByStep() && (p.desiredNewPods() == 0 || p.stepPodsReady()):
		return p.podsLabelled()
	case w.Paused && partition.Of(w.DesiredReplicas) < w.DesiredReplicas: // a partition does not cause this pause
		p.holdFor(p.ownerPaused())
	default:
		p.waitForPods()
	}
	return false
}

// rollbackPartition returns the partition that leaves so many pods in the rejected version. It is always a number: a share of a growing workload
// would create more of these pods. In an ordered workload, the last pods go first. Its pods may run either version in any order, because a lost pod
// is created again in the stable version.
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

// partitionKeepingAll returns a partition that keeps all pods of the rejected version.
func (p *planner) partitionKeepingAll(left []int32) rollout.Amount {
	partition := p.seen.Workload.Partition
	if n := len(left); n > 0 && partition.Value <= left[n-1] {
		return rollout.Amount{Value: left[n-1] + 1}
	}
	return partition
}

// oldOrdinals returns the ordinals of the pods of the rejected version, lowest first, without pods that are about to go.
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

// deleteStuckRollbackPods deletes up to so many unready pods of the rejected version, as part of the step. The controller of an ordered workload
// waits for them regardless of its template. No other pod may go meanwhile. If lost pods are created again in their version, a deletion is useless.
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
