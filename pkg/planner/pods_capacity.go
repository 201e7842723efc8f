package planner

import (
	"math"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file is about canary style in which the stable Deployment gives up pods as the canary gains them (capacity: Constant), so that about
// as many pods run as its owner wants, and not up to twice as many. All is decided from the pods that are seen ready, so that it may be cut
// short anywhere. The stable version always keeps a pod: of a version without any the controller may delete the ReplicaSet, and with it what
// a rollback gives back.

// podsForShare is so much of the replicas, rounded up.
func podsForShare(share rollout.Percent, replicas int32) int32 {
	return int32(math.Ceil(math.Round(float64(share)*float64(replicas)*1000)/1000/100 - 1e-9))
}

// stableShare is how many stable pods the traffic of the step needs.
func (p *planner) stableShare() int32 {
	n, step := p.seen.Workload.DesiredReplicas, p.currentStep()
	switch {
	case !p.seen.Spec.ConstantCapacity || p.earlyPods().Replicas > 0: // those are among its pods, and get no traffic
		return n
	case p.seen.Spec.Routing == nil:
		return min(n, 1)
	case step.Weight == nil:
		return n
	}
	return max(min(n, 1), podsForShare(100-*step.Weight, n))
}

// stableCapacityReady reports whether the stable version has the pods that it needs in addition to the ready ones of the canary, before the step
// gives it more traffic than it has now. The executor does not compensate for pods that the owner allows to be missing: pods that become unready and
// ready again would bring others with them.
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

// stepWeight is the canary's share of the traffic in the step, as far as it is one.
func (p *planner) stepWeight() rollout.Percent {
	if weight := p.currentStep().Weight; weight != nil {
		return *weight
	}
	return 0
}

// routedWeight is the share of the traffic that the canary has now.
func (p *planner) routedWeight() rollout.Percent {
	var most rollout.Percent
	for _, route := range p.seen.Routes {
		most = max(most, route.Weight)
	}
	return most
}

// stableScaledDown reports whether the stable version has given up as many pods as the canary has gained, and scales it down once the traffic of the
// step is on the canary. An autoscaler would take the remaining pods for the whole workload. The executor marks the workload first, so that it looks
// for its autoscalers as long as they may be disabled.
func (p *planner) stableScaledDown() bool {
	w := p.seen.Workload
	keep := max(p.stableShare(), w.DesiredReplicas-p.seen.Canary.ReadyPods())
	switch {
	case !p.seen.Spec.ConstantCapacity || w.SpecReplicas <= keep && !w.ScaledDown:
		return true
	case w.SpecReplicas <= keep: // an autoscaler that its owner applies again acts on the remaining pods
		return p.autoscalersDisabled()
	case !w.ScaledDown && len(p.seen.Autoscalers) > 0:
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.DesiredReplicas})
	case p.autoscalersDisabled():
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: keep, ScalesDown: true})
	}
	return false
}

// replicasHandedBack reports whether the workload has the pods back that its owner wants. It grows as far as the canary leaves room for, and the
// surge of its owner; the canary's share of the traffic falls with every pod that is ready; and where that is routed, its pods go.
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
		// A gateway that a person has to fix does not delay pods.
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

// absorbAutoscalerScale makes a number that an autoscaler wrote the release's own before the executor disables that autoscaler: later it could not
// tell the number from the owner's.
func (p *planner) absorbAutoscalerScale() bool {
	w := p.seen.Workload
	if w.AutoscalerActive {
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: max(1, min(w.SpecReplicas, w.DesiredReplicas))})
	}
	return w.AutoscalerActive
}

// unreadyRevisionsGone reports whether only the stable version uses the replicas of a held workload that has no ready pod now: other pods may never
// be ready. Stable ones replace them.
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
		if gone && stable.Replicas == 0 { // the controller would replace pods of a single ReplicaSet
			p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: 1})
		}
		p.addActions(rollout.ScaleRevision{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		gone = false
	}
	return gone
}

// scaleUpWorkload brings the workload to so many pods, and never to more than its owner wants. One that is rolling would get some of them in the older
// version.
func (p *planner) scaleUpWorkload(pods int32) {
	w := p.seen.Workload
	rolls := !w.Paused && (!w.Observed || w.Updated < w.SpecReplicas || w.Total > w.Updated)
	if pods = min(pods, w.DesiredReplicas); w.SpecReplicas < pods && !rolls || w.SpecReplicas > w.DesiredReplicas {
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: pods})
	}
}

// restoreReplicas restores all pods of the workload, and then its autoscalers, and ends the release's hold on its replicas.
func (p *planner) restoreReplicas() {
	w := p.seen.Workload
	switch {
	case w.SpecReplicas != w.DesiredReplicas && len(p.seen.Autoscalers) > 0:
		p.addActions(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.DesiredReplicas})
	case p.autoscalersRestored():
		p.addActions(rollout.RestoreReplicas{Workload: p.seen.Spec.Workload})
	}
}

// endsWithSharedService reports whether the release ends with the pods of both versions in the stable Service: then each bears its part, and no route
// has to follow.
func (p *planner) endsWithSharedService() bool {
	return p.currentState() == rollout.StateFinalising && p.finalisingTasks()[0] == api.FinalisingRestoreStableService
}

// canaryServes reports whether traffic can reach the canary.
func (p *planner) canaryServes() bool {
	return p.endsWithSharedService() || !p.pinnedToStable() || p.routedWeight() > 0
}

// weightHandedBack reports whether no gateway object gives the canary more than its share in the step below 0, and takes the rest from it. It gives
// nothing to it: pods of the stable version that are lost later are no reason to.
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
