package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file has the new pods come beside the stable ones in a CloneSet. Its controller knows no surge that lasts: once half of the pods
// are new it makes no more of either version. It does keep a partition, and so the workload is widened: it is told to run its owner's
// replicas and the new pods, and to leave as many in the stable version as its owner wants. A pod that is lost comes back in its own version.

func (p *planner) widened() bool { return p.seen.Workload != nil && p.seen.Workload.Widened }

// ensureRoom reports whether a widened workload has the new pods of the step, ready, beside all its stable ones.
func (p *planner) ensureRoom() bool {
	w, set := p.seen.Workload, p.newSet()
	stable, _ := p.sides()
	switch {
	case stable == nil:
		p.holdFor(p.stableMissing())
		return false
	case !w.Widened:
		p.act(rollout.ParkWorkload{Workload: p.seen.Spec.Workload, Budget: rollout.Budget{Surge: max(0, p.running()-w.Replicas)}})
		return false
	case !w.Observed:
		p.waitToBeSeen()
		return false
	case w.RevertsTo == "" && stable.Replicas == 0:
		// It was scaled to 0 and up again, or its own controller was at work before: then there is nothing to go back to.
		p.finalise(api.FinaliseContinuous, "the workload runs its new version everywhere, and makes pods of no other one")
		return false
	case w.RevertsTo != stable.Hash:
		p.holdFor(p.stableNotMade())
		return false
	case !p.strangersReplaced():
		return false
	}
	room := rollout.Budget{Surge: max(p.wanted(), set.Replicas)}
	switch extra := stable.Replicas - w.Replicas; {
	case w.Budget != room || w.Partition != rollout.Amount{Value: w.Replicas}:
		p.act(rollout.AdvanceWorkload{Workload: p.seen.Spec.Workload, Budget: room})
	case w.Paused: // not by its partition
		p.holdFor(p.ownerPaused())
	case extra > 0: // it was scaled down, or new pods that were lost while it was held came back stable
		p.act(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Pods: extra})
	case p.replaced() && extra == 0:
		return p.podsLabelled()
	default:
		p.waitForPods()
	}
	return false
}

// strangersReplaced reports whether only the stable and the new version run. Held, the workload's controller makes a stable pod of each of
// a third version that is deleted.
func (p *planner) strangersReplaced() bool {
	_, others := p.sides()
	for _, set := range others {
		switch n := p.mayGo(set, set.Replicas); {
		case set.Revision == p.m.CanaryRevision:
			continue
		case n > 0:
			p.act(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: n})
		default:
			p.wait("waiting for pods of the stable version in the place of those of %s", set.Hash)
		}
		return false
	}
	return true
}

// narrowed reports whether the workload has no room any more. It stays held; its controller brings it to its owner's replicas as ever.
func (p *planner) narrowed() bool {
	if p.widened() {
		p.act(rollout.RestWorkload{Workload: p.seen.Spec.Workload})
	}
	return !p.widened()
}

// madeAgain is the revision in which the workload's controller makes pods again while the new version is held back. No other one can
// have pods beside those of a release.
func (p *planner) madeAgain() *rollout.ReplicaSet {
	w := p.seen.Workload
	for i := range w.Sets {
		if set := &w.Sets[i]; set.Hash == w.RevertsTo || w.RevertsTo == "" && set.Revision == w.Revision {
			return set
		}
	}
	return nil
}

// forgotten reports whether nobody knows the template of what runs, so that the workload's controller makes pods of its new version only. That
// is not the stable one for it.
func (p *planner) forgotten() bool {
	return p.seen.Workload.RevertsTo == "" && p.newSet().Replicas == 0 && slices.ContainsFunc(p.seen.Workload.Sets, func(set rollout.ReplicaSet) bool {
		return set.Revision == "" && set.Replicas > 0
	})
}

func (p *planner) stableNotMade() rollout.Problem {
	ref, others := p.seen.Spec.Workload, "those of the version in its template"
	if r := p.seen.Workload.RevertsTo; r != "" {
		others = "those of " + r
	}
	return rollout.Problem{Reason: rollout.HoldStableMissing, Message: fmt.Sprintf(
		"%s makes no more pods of the stable version %s but %s, as after it was scaled to 0 during its release; "+
			"end the release, which gives the stable version back: sluice abort %s -n %s",
		ref, p.m.StableRevision, others, p.seen.Name, p.seen.Namespace)}
}
