package planner

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file creates the new pods of a CloneSet in parallel to the stable pods. The controller of a CloneSet has no lasting surge: once half of the
// pods are new, it creates no more of either version. It does keep a partition. So the executor adds surge replicas: spec.replicas is the owner's
// number and the new pods, and the partition is the owner's number. The controller creates a lost pod again in the same version.

func (p *planner) workloadSurged() bool { return p.seen.Workload != nil && p.seen.Workload.Surged }

// ensureSurgedPods reports whether a surged workload has the ready new pods of the step in parallel to all its stable pods.
func (p *planner) ensureSurgedPods() bool {
	w, set := p.seen.Workload, p.templateRevision()
	stable, _ := p.splitRevisions()
	switch {
	case stable == nil:
		p.holdFor(p.stableMissing())
		return false
	case !w.Surged:
		p.addActions(rollout.TakeOverWorkload{Workload: p.seen.Spec.Workload, Budget: rollout.Budget{Surge: max(0, p.totalReplicas()-w.DesiredReplicas)}})
		return false
	case !w.Observed:
		p.waitForObserved()
		return false
	case w.RevertsTo == "" && stable.Replicas == 0:
		// It was scaled to 0 and up again, or its own controller began before the hold. Then no stable version is left for a rollback.
		p.startFinalising(api.FinaliseContinuous, "the workload runs its new version everywhere, and makes pods of no other one")
		return false
	case w.RevertsTo != stable.Hash:
		p.holdFor(p.stableNotRecreated())
		return false
	case !p.otherRevisionsReplaced():
		return false
	}
	room := rollout.Budget{Surge: max(p.desiredNewPods(), set.Replicas)}
	switch extra := stable.Replicas - w.DesiredReplicas; {
	case w.Budget != room || w.Partition != rollout.Amount{Value: w.DesiredReplicas}:
		p.addActions(rollout.ResumeRollingUpdate{Workload: p.seen.Spec.Workload, Budget: room})
	case w.Paused: // a partition does not cause this pause
		p.holdFor(p.ownerPaused())
	case extra > 0: // a user scaled it down, or the controller replaced lost new pods with stable pods while the workload was held
		p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: stable.Hash, Pods: extra})
	case p.stepPodsReady() && extra == 0:
		return p.podsLabelled()
	default:
		p.waitForPods()
	}
	return false
}

// otherRevisionsReplaced reports whether only the stable and the new version run. While the workload is held, its controller replaces each deleted
// pod of a third version with a stable pod.
func (p *planner) otherRevisionsReplaced() bool {
	_, others := p.splitRevisions()
	for _, set := range others {
		switch n := p.deletablePods(set, set.Replicas); {
		case set.Revision == p.m.CanaryRevision:
			continue
		case n > 0:
			p.addActions(rollout.ReplacePods{Workload: p.seen.Spec.Workload, Hash: set.Hash, Pods: n})
		default:
			p.waitForEvent("waiting for pods of the stable version to replace the pods of %s", set.Hash)
		}
		return false
	}
	return true
}

// surgeRemoved reports whether the workload has no surge replicas any more. It stays held; its controller scales it to its owner's replicas.
func (p *planner) surgeRemoved() bool {
	if p.workloadSurged() {
		p.addActions(rollout.PauseWorkload{Workload: p.seen.Spec.Workload})
	}
	return !p.workloadSurged()
}

// replacementRevision returns the revision in which the workload's controller creates pods while the new version is held. No other revision can have
// pods in parallel to the pods of a release.
func (p *planner) replacementRevision() *rollout.Revision {
	w := p.seen.Workload
	for i := range w.Revisions {
		if set := &w.Revisions[i]; set.Hash == w.RevertsTo || w.RevertsTo == "" && set.Revision == w.Revision {
			return set
		}
	}
	return nil
}

// runningTemplateUnknown reports whether the template of the running pods is unknown, so the workload's controller creates pods of its new version
// only. The new version is then not the stable version.
func (p *planner) runningTemplateUnknown() bool {
	return p.seen.Workload.RevertsTo == "" && p.templateRevision().Replicas == 0 && slices.ContainsFunc(p.seen.Workload.Revisions, func(set rollout.Revision) bool {
		return set.Revision == "" && set.Replicas > 0
	})
}

func (p *planner) stableNotRecreated() rollout.Problem {
	ref, others := p.seen.Spec.Workload, "the pods of the version in its template"
	if r := p.seen.Workload.RevertsTo; r != "" {
		others = "those of " + r
	}
	return rollout.Problem{Reason: rollout.ReasonStableMissing, Message: fmt.Sprintf(
		"%s makes no more pods of the stable version %s but %s, as after it was scaled to 0 during its release; "+
			"end the release, which gives the stable version back: sluice abort %s -n %s",
		ref, p.m.StableRevision, others, p.seen.Name, p.seen.Namespace)}
}
