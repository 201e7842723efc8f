package planner

import (
	"math"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file implements constant capacity (capacity: Constant) in canary style. The stable Deployment loses pods as the canary gains them. So about as
// many pods run as its owner wants, and not up to twice as many. The planner decides only from observed ready pods, so an executor may stop anywhere.
// The stable version always keeps a pod: without pods, the controller may delete its ReplicaSet, and a rollback needs the ReplicaSet.

// podsForShare returns a share of the replicas, rounded up.
func podsForShare(share rollout.Percent, replicas int32) int32 {
	return int32(math.Ceil(math.Round(float64(share)*float64(replicas)*1000)/1000/100 - 1e-9))
}

// stableShare returns the number of stable pods that the traffic of the step needs.
func (p *planner) stableShare() int32 {
	n, step := p.seen.Workload.DesiredReplicas, p.currentStep()
	switch {
	case !p.seen.Spec.ConstantCapacity || p.earlyPods().Replicas > 0: // early pods are among its pods, and get no traffic
		return n
	case p.seen.Spec.Routing == nil:
		return min(n, 1)
	case step.Weight == nil:
		return n
	}
	return max(min(n, 1), podsForShare(100-*step.Weight, n))
}

// stableCapacityReady reports whether the stable version has the pods that it needs in addition to the ready canary pods. It checks this before a
// step gives the stable version more traffic. It does not replace missing pods that the owner's budget allows. Otherwise pods that become unready and
// ready again would cause other pods to come and go.
func (p *planner) stableCapacityReady() bool {
	w, share := p.seen.Workload, p.stableShare()
	if !w.ScaledDown {
		return true
	}
	if p.absorbAutoscalerScale() {
		return false
	}
	least := max(share, w.DesiredReplicas-p.seen.Canary.ReadyPods()-w.MaxUnavailable)
	if w.SpecReplicas < least || w.SpecReplicas > w.DesiredReplicas {
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: max(share, w.DesiredReplicas-p.seen.Canary.ReadyPods())})
		return false
	}
	weight := p.stepWeight()
	if need := podsForShare(100-weight, w.FullCapacity()); p.routedWeight() > weight && w.ReadyPods() < need {
		p.lacks = "not all of the stable pods that its traffic needs are ready"
		p.waitForEvent("waiting for the pods of the stable version that get more traffic: %d of %d are ready", w.ReadyPods(), need)
		return false
	}
	return true
}

// stepWeight returns the canary's share of the traffic in the step; 0 if the step sets no share.
func (p *planner) stepWeight() rollout.Percent {
	if weight := p.currentStep().Weight; weight != nil {
		return *weight
	}
	return 0
}

// routedWeight returns the present share of the canary's traffic.
func (p *planner) routedWeight() rollout.Percent {
	var most rollout.Percent
	for _, route := range p.seen.Routes {
		most = max(most, route.Weight)
	}
	return most
}

// stableScaledDown reports whether the stable version has lost as many pods as the canary has gained. It scales the stable version down once the
// traffic of the step is on the canary. An autoscaler would treat the remaining pods as all pods, so the executor disables it. The executor first
// marks the workload, so it looks for disabled autoscalers as long as the mark exists.
func (p *planner) stableScaledDown() bool {
	w := p.seen.Workload
	keep := max(p.stableShare(), w.DesiredReplicas-p.seen.Canary.ReadyPods())
	switch {
	case !p.seen.Spec.ConstantCapacity || w.SpecReplicas <= keep && !w.ScaledDown:
		return true
	case w.SpecReplicas <= keep: // a user who applies an autoscaler again enables it for the remaining pods
		return p.autoscalersDisabled()
	case !w.ScaledDown && len(p.seen.Autoscalers) > 0:
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.DesiredReplicas})
	case p.autoscalersDisabled():
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: keep, ScalesDown: true})
	}
	return false
}

// replicasHandedBack reports whether the workload has all the replicas that its owner wants. The workload grows into the room that the canary leaves,
// plus the owner's surge. The canary's share of the traffic falls with every ready stable pod. Once routes follow that share, pods of the canary go.
func (p *planner) replicasHandedBack() bool {
	w, c := p.seen.Workload, p.seen.Canary
	if w == nil || w.Deleting || !w.ScaledDown {
		return true
	}
	if p.absorbAutoscalerScale() || w.Held && !p.unreadyRevisionsGone() {
		return false
	}
	surge := max(1, w.MaxSurge)
	step := rollout.HandBackStep(w, c)
	if step == 0 || !p.canaryServes() {
		p.restoreReplicas()
		return false
	}
	if !p.weightHandedBack(step) {
		// A gateway that a person must fix does not prevent more stable pods.
		if len(p.actions) == 0 {
			p.scaleUpWorkload(max(w.DesiredReplicas-c.Replicas, w.ReadyPods()) + surge)
		}
		return false
	}
	stay := min(c.Replicas, podsForShare(rollout.Percent(-step), w.DesiredReplicas), max(1, w.DesiredReplicas-w.ReadyPods()))
	if stay < c.Replicas {
		p.addActions(rollout.ShrinkCanary{Name: p.seen.Spec.Workload.Name + api.SuffixCanary, Replicas: stay})
	}
	p.scaleUpWorkload(w.DesiredReplicas - stay + surge)
	p.waitForEvent("waiting for the workload to have its pods back: %d of %d are ready", w.ReadyPods(), w.DesiredReplicas)
	return false
}

// absorbAutoscalerScale writes the replicas that an autoscaler set as the release's own, before the executor disables the autoscaler. Later they
// would look like the owner's replicas.
func (p *planner) absorbAutoscalerScale() bool {
	w := p.seen.Workload
	if w.AutoscalerActive {
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: max(1, min(w.SpecReplicas, w.DesiredReplicas))})
	}
	return w.AutoscalerActive
}

// unreadyRevisionsGone reports whether only the stable version has pods in a held workload without ready pods. Pods of other versions may never be
// ready. Stable pods replace them.
func (p *planner) unreadyRevisionsGone() bool {
	gone := true
	stable, others := p.splitRevisions()
	if stable == nil {
		return true
	}
	for _, set := range others {
		if set.Ready > 0 {
			continue
		}
		if gone && stable.Replicas == 0 { // the controller would replace removed pods in a single ReplicaSet with pods
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: 1})
		}
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		gone = false
	}
	return gone
}

// scaleUpWorkload scales the workload up to so many pods, and never above its owner's replicas. It does not scale a workload in a rolling update,
// because some of its new pods would be of the older version.
func (p *planner) scaleUpWorkload(pods int32) {
	w := p.seen.Workload
	rolls := !w.Paused && (!w.Observed || w.Updated < w.SpecReplicas || w.Total > w.Updated)
	if pods = min(pods, w.DesiredReplicas); w.SpecReplicas < pods && !rolls || w.SpecReplicas > w.DesiredReplicas {
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: pods})
	}
}

// restoreReplicas restores the owner's replicas and then the autoscalers, and removes the record of the replicas.
func (p *planner) restoreReplicas() {
	w := p.seen.Workload
	switch {
	case w.SpecReplicas != w.DesiredReplicas && len(p.seen.Autoscalers) > 0:
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.DesiredReplicas})
	case p.autoscalersRestored():
		p.addActions(rollout.RestoreReplicas{Workload: p.seen.Spec.Workload})
	}
}

// endsWithSharedService reports whether the release ends with the pods of both versions in the stable Service. Then each pod serves its part, and no
// route has to follow.
func (p *planner) endsWithSharedService() bool {
	return p.currentState() == rollout.StateFinalising && p.finalisingTasks()[0] == api.FinalisingRestoreStableService
}

// canaryServes reports whether traffic can reach the canary.
func (p *planner) canaryServes() bool {
	return p.endsWithSharedService() || !p.pinnedToStable() || p.routedWeight() > 0
}

// weightHandedBack reports whether no gateway object gives the canary more than its share in the step below 0. It reduces larger shares. It never
// raises a share, not even if pods of the stable version are lost later.
func (p *planner) weightHandedBack(step int32) bool {
	done := true
	for _, route := range p.seen.Routes {
		r, rendered := route.Steps[step]
		switch {
		case p.endsWithSharedService() || route.Weight < rollout.Percent(-step) || route.Weight == rollout.Percent(-step) && (!r.Applied || r.Accepted):
			continue
		case r.Applied:
			p.waitForEvent("waiting for the gateway to accept %s", route.Object)
		case route.Missing || !rendered || r.Refused != "" || p.unknownRouteProblem(route.Object) != nil:
			p.waitForEvent("waiting for the workload to have its pods back: the share of the canary on %s cannot be made less", route.Object)
		default:
			p.addActions(rollout.ApplyRoute{Object: route.Object, Step: step, Digest: r.Digest})
		}
		done = false
	}
	return done
}
