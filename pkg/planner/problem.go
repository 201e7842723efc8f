package planner

import (
	"fmt"
	"sluice.dev/sluice/pkg/rollout"
	"strings"
)

// Some problems that the planner finds, as sentences that end with the next thing to do. Some begin with OpenKruise's words, because programs match
// them. The list of all reasons is in package rollout.

func (p *planner) missingWorkload() rollout.Problem {
	for _, problem := range p.seen.Problems {
		if problem.Reason == rollout.ReasonWorkloadMissing || problem.Reason == rollout.ReasonUnsupported {
			return problem // which explains the reason
		}
	}
	ref := p.seen.Spec.Workload
	return rollout.Problem{Reason: rollout.ReasonWorkloadMissing, Message: fmt.Sprintf(
		"Workload Not Found; create it or correct spec.workloadRef: kubectl get %s %s -n %s", strings.ToLower(ref.Kind), ref.Name, p.seen.Namespace)}
}

func (p *planner) workloadConflict(with string) rollout.Problem {
	return rollout.Problem{Reason: rollout.ReasonWorkloadConflict, Message: fmt.Sprintf(
		"%s; delete one of the two: kubectl delete rollout %s -n %s", rollout.RivalMessage(with), p.seen.Name, p.seen.Namespace)}
}

func (p *planner) missingService(name string) rollout.Problem {
	return rollout.Problem{Reason: rollout.ReasonServiceMissing, Message: fmt.Sprintf(
		"Service %s does not exist; create it, or name the Service of the workload in trafficRoutings[].service: kubectl get services -n %s",
		name, p.seen.Namespace)}
}

func (p *planner) foreignObject(kind, name string) rollout.Problem {
	return rollout.Problem{Reason: rollout.ReasonNameConflict, Message: fmt.Sprintf(
		"%s %s exists and is not ours; rename or delete it, the release needs this name for its canary: kubectl delete %s %s -n %s",
		kind, name, strings.ToLower(kind), name, p.seen.Namespace)}
}

// routeProblem returns the problem of a gateway object with the rendered steps, or nil.
func (p *planner) routeProblem(route rollout.Route) *rollout.Problem {
	if route.Missing {
		return &rollout.Problem{Reason: rollout.ReasonRouteMissing, Message: fmt.Sprintf(
			"%s does not exist; create it, or correct customNetworkRefs: kubectl get %s -n %s", route.Object, strings.ToLower(route.Object.Kind), p.seen.Namespace)}
	}
	for n := range p.seen.Spec.LastStep() {
		if r, ok := route.Steps[n+1]; ok && r.Refused != "" {
			return &rollout.Problem{Reason: rollout.ReasonRouteUnsupported, Message: fmt.Sprintf(
				"%s; mend the object, its script or the step: kubectl edit rollout %s -n %s", r.Refused, p.seen.Name, p.seen.Namespace)}
		}
	}
	return nil
}

// unsupportedFields explains how to go on without a field. The validation policy refuses such a change of the plan during a release.
func (p *planner) unsupportedFields() rollout.Problem {
	way := "remove it from the Rollout to go on: kubectl edit rollout " + p.seen.Name + " -n " + p.seen.Namespace
	if p.currentState().Releasing() {
		way = "roll the workload back (kubectl apply the previous manifest), then remove it from the Rollout"
	}
	return rollout.Problem{Reason: rollout.ReasonUnsupported, Message: fmt.Sprintf(
		"This version of Sluice does not carry out %s yet, so the release is held; %s", strings.Join(p.seen.Spec.Unsupported, ", "), way)}
}
