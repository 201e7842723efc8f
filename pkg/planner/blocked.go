package planner

import "sluice.dev/sluice/pkg/rollout"

// unknownProblem is the problem that puts everything in doubt: first one that came up in this very run.
func (p *planner) unknownProblem() *rollout.Problem {
	var first *rollout.Problem
	for i := range p.seen.Problems {
		problem := &p.seen.Problems[i]
		if !problem.Unknown || problem.Route != (rollout.Ref{}) {
			continue
		}
		if first == nil || problem.FromApply && !first.FromApply {
			first = problem
		}
	}
	return first
}

// holdBlocked holds where nothing can be concluded. Only a Rollout that has nothing under way may still be deleted.
func (p *planner) holdBlocked(problem rollout.Problem) {
	p.holdFor(problem)
	switch {
	case !p.seen.Deleting || p.currentState().Releasing() || !p.seen.Finalizer:
	case len(p.seen.Spec.Steps) == 0:
		p.addActions(rollout.RemoveFinalizer{})
	case problem.Reason == rollout.ReasonForbidden && !problem.FromApply:
		p.disownUnreadable()
	}
}

// disownUnreadable releases a Rollout without a release under way, if some of its objects cannot be read: the workload if it was read, and then the
// Rollout.
func (p *planner) disownUnreadable() {
	w, ref := p.seen.Workload, p.seen.Spec.Workload
	switch {
	case w == nil || w.Deleting || w.AdoptedBy != "" || !w.HasMarks && !w.Held:
		p.addActions(rollout.RemoveFinalizer{})
	case w.Held:
		p.addActions(rollout.ResumeWorkload{Workload: ref})
	default:
		p.addActions(rollout.DisownWorkload{Workload: ref})
	}
}

// adoptDespiteProblem adopts the workload even if other objects cannot be read: a change of a workload that is not adopted rolls out at once.
func (p *planner) adoptDespiteProblem() bool {
	w := p.seen.Workload
	if p.currentState() != rollout.StateIdle || p.seen.Deleting || p.seen.Spec.Disabled || w == nil || w.Deleting || w.Adopted || w.AdoptedBy != "" {
		return false
	}
	if !p.seen.Finalizer {
		p.addActions(rollout.AddFinalizer{})
	} else {
		p.addActions(rollout.AdoptWorkload{Workload: p.seen.Spec.Workload, StableID: rollout.StableIDUnknown})
	}
	return true
}

// maybeRouted reports whether something of ours may be on a gateway object. The status says so before the first route of a
// release is written; when it is lost, what else there is of a release tells.
func (p *planner) maybeRouted() bool {
	if p.m.RouteDigest != "" || p.seen.Status.Sluice != nil {
		return p.m.RouteDigest != ""
	}
	ours := func(s *rollout.Service) bool { return s != nil && s.Ours }
	for _, b := range p.seen.Backends {
		if ours(b.CanaryService) || b.PinnedHash() != "" {
			return true
		}
	}
	return p.seen.Canary != nil && p.seen.Canary.Ours
}

// holdForRoute holds what would be written to a gateway object that a problem is about.
func (p *planner) holdForRoute(route rollout.Ref) bool {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Warning && problem.Route == route {
			p.holdFor(*problem)
			return true
		}
	}
	return false
}

// unknownRouteProblem is the problem that leaves a gateway object as it is; nil without one.
func (p *planner) unknownRouteProblem(route rollout.Ref) *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; problem.Unknown && problem.Route == route {
			return problem
		}
	}
	return nil
}
