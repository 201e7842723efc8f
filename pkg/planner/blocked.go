package planner

import "sluice.dev/sluice/pkg/rollout"

// unknownProblem returns the problem that makes the whole observation uncertain. A problem of the current run comes first.
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

// holdBlocked stalls the Rollout if the planner cannot conclude anything. A user can still delete a Rollout without a release under way.
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

// disownUnreadable releases an idle Rollout if the executor cannot read all its objects. It releases the workload if the executor can read it, and
// then removes the finalizer.
func (p *planner) disownUnreadable() {
	w, ref := p.seen.Workload, p.seen.Spec.Workload
	switch {
	case w == nil || w.Deleting || p.rival() != "" || !w.HasMarks && !w.Held:
		p.addActions(rollout.RemoveFinalizer{})
	case w.Held:
		p.addActions(rollout.ResumeWorkload{Workload: ref})
	default:
		p.addActions(rollout.DisownWorkload{Workload: ref})
	}
}

// adoptDespiteProblem adopts the workload even if the executor cannot read other objects. Without adoption, a change of the workload rolls out at
// once.
func (p *planner) adoptDespiteProblem() bool {
	w := p.seen.Workload
	if p.currentState() != rollout.StateIdle || p.seen.Deleting || p.seen.Spec.Disabled || w == nil || w.Deleting || w.Adopted || p.rival() != "" {
		return false
	}
	if !p.seen.Finalizer {
		p.addActions(rollout.AddFinalizer{})
	} else {
		p.addActions(rollout.AdoptWorkload{Workload: p.seen.Spec.Workload, StableID: rollout.StableIDUnknown})
	}
	return true
}

// maybeRouted reports whether this release may have changed a gateway object. The executor records that in the status before it writes the first
// route. If the status is lost, maybeRouted infers it from the other objects of the release.
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

// holdForRoute stalls a write to a gateway object with a problem.
func (p *planner) holdForRoute(route rollout.Ref) bool {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Warning && problem.Route == route {
			p.holdFor(*problem)
			return true
		}
	}
	return false
}

// unknownRouteProblem returns the problem that prevents the executor from reading or writing a gateway object, or nil.
func (p *planner) unknownRouteProblem(route rollout.Ref) *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; problem.Unknown && problem.Route == route {
			return problem
		}
	}
	return nil
}
