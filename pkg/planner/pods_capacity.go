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

// shareOf is so much of the replicas, rounded up.
func shareOf(share rollout.Percent, replicas int32) int32 {
	return int32(math.Ceil(math.Round(float64(share)*float64(replicas)*1000)/1000/100 - 1e-9))
}

// stableShare is how many stable pods the traffic of the step needs.
func (p *planner) stableShare() int32 {
	n, step := p.seen.Workload.Replicas, p.step()
	switch {
	case !p.seen.Spec.Constant || p.earlyPods().Replicas > 0: // those are among its pods, and get no traffic
		return n
	case p.seen.Spec.Routing == nil:
		return min(n, 1)
	case step.Weight == nil:
		return n
	}
	return max(min(n, 1), shareOf(100-*step.Weight, n))
}

// stableBears reports whether the stable version has the pods that it needs beside those of the canary which are ready, before the step gives
// it more traffic than it has now. What its owner lets be missing is not made up for: pods that become unready and ready again would have
// others come and go with them.
func (p *planner) stableBears() bool {
	w, share := p.seen.Workload, p.stableShare()
	if !w.Shrunk {
		return true
	}
	if p.meddled() {
		return false
	}
	least := max(share, w.Replicas-p.seen.Canary.Ready()-w.MaxUnavailable)
	if w.Told < least || w.Told > w.Replicas {
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: max(share, w.Replicas-p.seen.Canary.Ready())})
		return false
	}
	weight := p.weight()
	if need := shareOf(100-weight, w.Full()); p.routedWeight() > weight && w.Ready() < need {
		p.lacks = "not all of the stable pods that its traffic needs are ready"
		p.wait("waiting for the pods of the stable version that get more traffic: %d of %d are ready", w.Ready(), need)
		return false
	}
	return true
}

// weight is the canary's share of the traffic in the step, as far as it is one.
func (p *planner) weight() rollout.Percent {
	if weight := p.step().Weight; weight != nil {
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

// stableYields reports whether the stable version has given up what the canary has gained, and takes it: once the traffic of the step is on
// the canary. An autoscaler would take what is left for all there is. It is marked before, so that its autoscalers are looked for as long as
// they may be off.
func (p *planner) stableYields() bool {
	w := p.seen.Workload
	keep := max(p.stableShare(), w.Replicas-p.seen.Canary.Ready())
	switch {
	case !p.seen.Spec.Constant || w.Told <= keep && !w.Shrunk:
		return true
	case w.Told <= keep: // who applies an autoscaler again puts it back on what is left
		return p.scalersParked()
	case !w.Shrunk && len(p.seen.Scalers) > 0:
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.Replicas})
	case p.scalersParked():
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: keep, Shrinks: true})
	}
	return false
}

// handedBack reports whether the workload has the pods back that its owner wants. It grows as far as the canary leaves room for, and the
// surge of its owner; the canary's share of the traffic falls with every pod that is ready; and where that is routed, its pods go.
func (p *planner) handedBack() bool {
	w, c := p.seen.Workload, p.seen.Canary
	if w == nil || w.Deleting || !w.Shrunk {
		return true
	}
	if p.meddled() || w.Held && !p.unfitGone() {
		return false
	}
	surge := max(1, w.MaxSurge)
	step := rollout.HandBack(w, c)
	if step == 0 || !p.canaryServes() {
		p.whole()
		return false
	}
	if !p.shifted(step) {
		// Whoever has to mend a gateway does not keep pods away.
		if len(p.actions) == 0 {
			p.grow(max(w.Replicas-c.Replicas, w.Ready()) + surge)
		}
		return false
	}
	stay := min(c.Replicas, shareOf(rollout.Percent(-step), w.Replicas), max(1, w.Replicas-w.Ready()))
	if stay < c.Replicas {
		p.act(rollout.ShrinkCanary{Name: p.seen.Spec.Workload.Name + api.SuffixCanary, Replicas: stay})
	}
	p.grow(w.Replicas - stay + surge)
	p.wait("waiting for the workload to have its pods back: %d of %d are ready", w.Ready(), w.Replicas)
	return false
}

// meddled makes a number that an autoscaler wrote the release's own, before that one is taken off: later nobody could tell it from its owner's.
func (p *planner) meddled() bool {
	w := p.seen.Workload
	if w.Meddled {
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: max(1, min(w.Told, w.Replicas))})
	}
	return w.Meddled
}

// unfitGone reports whether no version but the stable one takes up room in a workload that is held of which no pod is ready now: such pods
// may never be. Stable ones come in their place.
func (p *planner) unfitGone() bool {
	gone := true
	stable, others := p.sides()
	if stable == nil {
		return true
	}
	for _, set := range others {
		if set.Ready > 0 {
			continue
		}
		if gone && stable.Replicas == 0 { // for a single ReplicaSet with pods the controller would make up for what is taken
			p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: 1})
		}
		p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: 0})
		gone = false
	}
	return gone
}

// grow brings the workload to so many pods, and never to more than its owner wants. One that is rolling would get some of them in the older
// version.
func (p *planner) grow(pods int32) {
	w := p.seen.Workload
	rolls := !w.Paused && (!w.Observed || w.Updated < w.Told || w.Total > w.Updated)
	if pods = min(pods, w.Replicas); w.Told < pods && !rolls || w.Told > w.Replicas {
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: pods})
	}
}

// whole gives the workload all its pods, and then its autoscalers, and ends what is ours of its replicas.
func (p *planner) whole() {
	w := p.seen.Workload
	switch {
	case w.Told != w.Replicas && len(p.seen.Scalers) > 0:
		p.act(rollout.ScaleWorkload{Workload: p.seen.Spec.Workload, Replicas: w.Replicas})
	case p.scalersBack():
		p.act(rollout.RestoreReplicas{Workload: p.seen.Spec.Workload})
	}
}

// opened reports whether the release ends with the pods of both versions in the stable Service: then each bears its part, and no route
// has to follow.
func (p *planner) opened() bool {
	return p.state() == rollout.StateFinalising && p.tasks()[0] == api.FinalisingRestoreStableService
}

// canaryServes reports whether traffic can reach the canary.
func (p *planner) canaryServes() bool {
	return p.opened() || !p.pinnedToStable() || p.routedWeight() > 0
}

// shifted reports whether no gateway object gives the canary more than its share in the step below 0, and takes the rest from it. It gives
// nothing to it: pods of the stable version that are lost later are no reason to.
func (p *planner) shifted(step int32) bool {
	done := true
	for _, route := range p.seen.Routes {
		r, rendered := route.Steps[step]
		switch {
		case p.opened() || route.Weight < rollout.Percent(-step) || route.Weight == rollout.Percent(-step) && (!r.Applied || r.Accepted):
			continue
		case r.Applied:
			p.wait("waiting for the gateway to accept %s", route.Object)
		case route.Missing || !rendered || r.Refused != "" || p.blindTo(route.Object) != nil:
			p.wait("waiting for the workload to have its pods back: the share of the canary on %s cannot be made less", route.Object)
		default:
			p.act(rollout.ApplyRoute{Object: route.Object, Step: step, Digest: r.Digest})
		}
		done = false
	}
	return done
}
