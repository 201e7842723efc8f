package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// inPlace reports whether the workload itself brings in the new pods, in the place of old ones or, blue-green, beside them.
func (p *planner) inPlace() bool {
	return p.seen.Spec.Style == rollout.StylePartition || p.seen.Spec.Style == rollout.StyleBlueGreen
}

// newSet is what the workload runs of the version under way; without pods of it, an empty one.
func (p *planner) newSet() rollout.ReplicaSet {
	if w := p.seen.Workload; w != nil {
		for _, set := range w.Sets {
			if set.Revision == w.Revision {
				return set
			}
		}
	}
	return rollout.ReplicaSet{Parked: true}
}

// wanted is the number of new pods of the current step. A share of less than all leaves an old pod, as OpenKruise does.
func (p *planner) wanted() int32 {
	total := p.seen.Workload.Replicas
	if p.m.RollbackReplicas > 0 {
		return max(0, total-p.stays())
	}
	return p.share(total)
}

// stablePods is how many pods of the stable version the workload is told to keep.
func (p *planner) stablePods() int32 {
	for _, set := range p.seen.Workload.Sets {
		if set.Hash == p.m.StableRevision {
			return set.Replicas
		}
	}
	return 0
}

// newHash tells the new pods apart from the stable ones, "" while there are none.
func (p *planner) newHash() string {
	if p.beside() {
		return p.canarySet().Hash
	}
	if p.inPlace() {
		return p.newSet().Hash
	}
	return p.seen.Canary.Hash
}

// ensureReplaced reports whether the workload has the new pods of the step, ready. It never goes back: a jump back moves traffic.
func (p *planner) ensureReplaced() bool {
	switch p.seen.Workload.Lever {
	case rollout.LeverPartition:
		return p.ensurePartitioned()
	case rollout.LeverDeletion:
		return p.ensureDeleted()
	}
	return p.ensureRolled()
}

// ensureRolled reports whether a Deployment has the new pods of the step, ready, and rests. It is let go with a budget that rises with
// every pod that becomes ready, and paused again when the step is reached.
func (p *planner) ensureRolled() bool {
	w, set, want := p.seen.Workload, p.newSet(), p.wanted()
	switch {
	case !p.untouched() && !p.taken():
		return false
	case !set.Parked:
		p.waitToBeSeen()
		return false
	case !p.strangersParked():
		return false
	case !p.backFromZero() || set.Replicas == 0 && !p.routesRestored():
		return false
	}
	switch done := p.replaced(); {
	case done && w.Paused && !w.Backwards:
		return p.podsLabelled()
	case done && !w.Paused && p.running() <= w.Replicas+rest(w, set.Replicas).Surge:
		p.act(rollout.RestWorkload{Workload: p.seen.Spec.Workload, Budget: rest(w, set.Replicas)})
		return false
	case !done && w.Paused && set.Replicas >= want:
		// Pods of it have become unready, or have yet to become ready: nothing that the workload could do.
	default:
		// Whatever a step tolerates, its owner lets no more be missing.
		old := p.running() - set.Replicas
		next := budget(w, max(want, set.Replicas), set.Ready, w.Replicas-old)
		if w.Paused || w.Budget != next {
			p.act(rollout.AdvanceWorkload{Workload: p.seen.Spec.Workload, Budget: next})
			return false
		}
	}
	p.waitForPods()
	return false
}

// untouched reports whether a Deployment is as it was when the change of its template was held, with all its pods stable and no ReplicaSet for
// the new ones: one patch may then park it and let it go, for there is nothing that its controller could do in between.
func (p *planner) untouched() bool {
	w := p.seen.Workload
	stable, others := p.sides()
	return !w.Parked && w.Paused && w.Observed && p.newSet().Hash == "" && len(others) == 0 && stable != nil && stable.Replicas >= w.Replicas
}

func (p *planner) waitForPods() {
	want := p.wanted()
	p.lacks = lacksNew(p.replaced(), want)
	if p.m.RollbackReplicas > 0 {
		p.wait("Rollout is in step(%d/%d) of a rollback in batches: %d of %d pods of the stable version are ready",
			p.m.Step, len(p.seen.Spec.Steps), min(p.newSet().Ready, want), want)
		return
	}
	p.wait("Rollout is in step(%d/%d), and upgrade workload to new version: %d of %d new pods are ready%s%s",
		p.m.Step, len(p.seen.Spec.Steps), min(p.newSet().Ready, want), want, p.outOfBudget(), p.heldUp())
}

// heldUp says why a controller may make no new pods: some count those of other versions too that are not ready, and wait for them.
func (p *planner) heldUp() string {
	w, unready := p.seen.Workload, int32(0)
	if w.Lever != rollout.LeverPartition || p.newSet().Replicas >= p.wanted() {
		return ""
	}
	for _, set := range w.Sets {
		if set.Revision != w.Revision {
			unready += set.Replicas - set.Ready
		}
	}
	if unready < max(1, w.MaxUnavailable) {
		return ""
	}
	return fmt.Sprintf("; pods of another version that are not ready (%d) may keep its controller from going on: see maxUnavailable of %s", unready, p.seen.Spec.Workload)
}

// outOfBudget says why a step goes on that has as many ready pods as it needs: there is no room for the unready ones that it tolerates.
func (p *planner) outOfBudget() string {
	w, set := p.seen.Workload, p.newSet()
	have := max(p.wanted(), set.Replicas)
	if p.beside() || set.Ready == 0 || set.Ready+p.seen.Spec.FailureThreshold.Of(have) < have || have-set.Ready <= w.MaxUnavailable {
		return ""
	}
	return fmt.Sprintf("; failureThreshold would do with them, but only %d pods may be missing at once: see maxUnavailable of %s", w.MaxUnavailable, p.seen.Spec.Workload)
}

func (p *planner) waitToBeSeen() {
	p.wait("waiting for the controller of %s to see how it is to be released", p.seen.Spec.Workload)
}

// park holds the workload as it is. A paused Deployment still brings its pods to their number, surge included, and knows no versions.
func (p *planner) park() {
	w := p.seen.Workload
	if w.Lever != rollout.LeverBudget && !w.Widened {
		p.act(rollout.HoldWorkload{Workload: p.seen.Spec.Workload})
		return
	}
	if p.beside() || p.leaks() > 0 {
		p.act(rollout.ParkWorkload{Workload: p.seen.Spec.Workload})
		return
	}
	p.act(rollout.ParkWorkload{Workload: p.seen.Spec.Workload, Budget: rollout.Budget{
		Unavailable: max(1, percentFor(p.newSet().Replicas, w.Replicas)), Surge: max(0, p.running()-w.Replicas),
	}})
}

// leaks is how many pods a Deployment had taken away for new ones when it was seized, while it has stable ones. Its paused controller would
// make up for them in the version that has the most pods, the newest of equal ones.
func (p *planner) leaks() int32 {
	if stable, _ := p.sides(); !p.inPlace() || p.beside() || p.seen.Workload.Lever != rollout.LeverBudget || stable == nil || stable.Replicas == 0 {
		return 0
	}
	return max(0, p.seen.Workload.Replicas-p.running())
}

// filled reports whether a Deployment that was seized in the middle of a change has all its pods. The missing ones come back stable.
func (p *planner) filled() bool {
	w, missing := p.seen.Workload, p.leaks()
	if missing == 0 || !w.Paused || !w.Parked || !w.Backwards {
		return true
	}
	if !w.Observed {
		p.waitToBeSeen()
		return false
	}
	stable, _ := p.sides()
	p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: stable.Replicas + missing})
	return false
}

// strangersParked reports whether no pod of a third version counts as available. Those of one that began to roll before it was seized
// do, and the controller of a Deployment would take stable pods, which are older, before them.
func (p *planner) strangersParked() bool {
	_, others := p.sides()
	for _, set := range others {
		switch {
		case set.Revision == p.seen.Workload.Revision || set.Parked:
			continue
		case !set.Parking:
			p.act(rollout.ParkSet{Workload: p.seen.Spec.Workload, Hash: set.Hash})
		default:
			p.waitToBeSeen()
		}
		return false
	}
	return true
}

// running is how many pods the workload is told to run, of all versions.
func (p *planner) running() int32 {
	var n int32
	for _, set := range p.seen.Workload.Sets {
		n += set.Replicas
	}
	return n
}

// mayRoll reports whether the workload may be at work: on a step of this very version, with a budget of ours.
func (p *planner) mayRoll() bool {
	w := p.seen.Workload
	return p.inPlace() && p.state().InStep() && w.Parked && !w.Backwards && w.Replicas > 0 && !p.newVersion() && !p.stopped()
}

// replaceable holds a release whose workload cannot replace its pods a few at a time.
func (p *planner) replaceable() bool {
	if !p.inPlace() || !p.seen.Workload.Recreate {
		return true
	}
	p.holdFor(rollout.Problem{Reason: rollout.HoldInvalidSpec, Message: fmt.Sprintf(
		"%s has the strategy Recreate, which replaces all pods at once; set its spec.strategy.type to RollingUpdate, or use canary style "+
			"(spec.strategy.canary.enableExtraWorkloadForCanary: true): kubectl edit rollout %s -n %s",
		p.seen.Spec.Workload, p.seen.Name, p.seen.Namespace)})
	return false
}

// retreated reports whether a release that was aborted or rolled back has left no pod of its version in the workload. The controller of a
// Deployment goes forward only, so that the ReplicaSets are scaled here. No more pods are missing or too many than the owner allows; new pods
// of an aborted release that traffic cannot reach any more are in the way of stable ones and go at once.
func (p *planner) retreated() bool {
	w := p.seen.Workload
	if p.beside() && w.Lever == rollout.LeverBudget {
		return p.besideGone()
	}
	stable, others := p.sides()
	switch {
	case !p.inPlace():
		return true
	case !p.graceOver():
		return false
	case w.Lever != rollout.LeverBudget && w.RevertsTo != p.m.StableRevision: // a pod that is lost would come back new
		p.m.FinaliseReason = api.FinaliseRollback
		p.templateRestored()
		return false
	case len(others) == 0:
		return true
	case stable == nil:
		p.holdFor(p.stableMissing())
		return false
	case p.beside():
		return p.besideGone()
	case w.Lever != rollout.LeverBudget:
		return p.reverted(others)
	case !w.Parked:
		p.park()
		return false
	case !w.Backwards:
		p.act(rollout.RetreatWorkload{Workload: p.seen.Spec.Workload})
		return false
	case !w.Observed:
		p.wait("")
		return false
	}
	ready, atOnce := stable.Ready, p.state() == rollout.StateAborted && p.pinnedToStable()
	for _, set := range others {
		ready += set.Ready
	}
	up := min(w.Replicas-stable.Replicas, w.Replicas+w.MaxSurge-p.running())
	if stable.Replicas == 0 {
		up = max(up, 1) // of a single ReplicaSet with pods the controller would make up for what is taken
	}
	if up > 0 {
		p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Replicas: stable.Replicas + up})
		return false
	}
	spare := ready - w.Kept()
	for _, set := range others {
		unready := set.Replicas - set.Ready
		down := min(set.Replicas, unready+max(spare, 0))
		if atOnce {
			down = set.Replicas
		}
		if down > 0 {
			p.act(rollout.ScaleSet{Workload: p.seen.Spec.Workload, Hash: set.Hash, Replicas: set.Replicas - down})
			return false
		}
	}
	p.wait("")
	return false
}

// sides are the stable ReplicaSet, nil when it is gone, and the others that have pods, the newest first.
func (p *planner) sides() (stable *rollout.ReplicaSet, others []rollout.ReplicaSet) {
	sets := p.seen.Workload.Sets
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

// pinnedToStable reports whether nothing but the stable version gets traffic, once the routes have been restored.
func (p *planner) pinnedToStable() bool {
	for _, backend := range p.services() {
		if backend.StableService == nil || backend.Pin() != p.m.StableRevision {
			return false
		}
	}
	return len(p.seen.Spec.Routing) > 0
}

func (p *planner) stableMissing() rollout.Problem {
	return rollout.Problem{Reason: rollout.HoldStableMissing, Message: fmt.Sprintf(
		"The revision of the stable version %s is gone, so that its template cannot be given back; apply the manifest of the version that should run: kubectl edit %s -n %s; "+
			"or release the new one after all: sluice retry %s -n %s",
		p.m.StableRevision, p.seen.Spec.Workload.Typed(), p.seen.Namespace, p.seen.Name, p.seen.Namespace)}
}

// newPods are the pods of the new version, wherever they run.
func (p *planner) newPods() (replicas, ready int32) {
	if p.state().Releasing() {
		early := p.earlyPods()
		if p.m.RollbackReplicas > 0 {
			early = p.newSet()
		}
		replicas, ready = early.Replicas, early.Ready
	}
	if canary := p.seen.Canary; canary != nil && canary.Ours {
		replicas += canary.Replicas
		ready += canary.Available
	}
	return replicas, ready
}

// fullyPromoted ends the release as a success, whatever steps are left.
func (p *planner) fullyPromoted(c api.Command) {
	p.endRuns()
	p.finalise(api.FinaliseSuccess, because("the steps that were left were skipped by "+c.Actor, c.Comment))
}
