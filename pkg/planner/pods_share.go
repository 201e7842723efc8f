package planner

import (
	"fmt"
	"sluice.dev/sluice/pkg/rollout"
)

// This file implements the share of a step: the number of its pods, steps that the executor cannot carry out as written, and the new version's share
// of the requests.

// podsOfStep returns how many of total pods the current step asks for.
func (p *planner) podsOfStep(total int32) int32 { return p.podsOf(p.currentStep(), total) }

// podsOf returns how many of total pods a step asks for. If the workload replaces pods in place, a step of less than 100 % leaves one of several old
// pods, as in OpenKruise.
func (p *planner) podsOf(step rollout.Step, total int32) int32 {
	want := step.Replicas.Of(total)
	if p.replacesInPlace() && step.Replicas.Percent && step.Replicas.Value < 100 && total > 1 {
		want = min(want, total-1)
	}
	return want
}

// replacesInPlace reports whether each new pod replaces an old pod.
func (p *planner) replacesInPlace() bool { return p.inPlace() && !p.isBlueGreen() }

// takesLast reports whether a step replaces all pods in place, including the last pod of the stable version.
func (p *planner) takesLast(n int32) bool {
	total := p.seen.Workload.DesiredReplicas
	step, planned := p.seen.Spec.Step(n)
	return planned && p.replacesInPlace() && total > 0 && p.podsOf(step, total) >= total
}

// mayTakeLast reports whether a step may replace the last pod of the stable version. It may if the step asks for all pods and all requests, or if the
// owner accepts that the new version gets them.
func (p *planner) mayTakeLast(n int32) bool {
	step, _ := p.seen.Spec.Step(n)
	switch {
	case step.AllowFull:
		return true
	case step.Replicas.Percent && step.Replicas.Value < 100:
		return false
	case step.RoutesTraffic():
		return step.Weight != nil && *step.Weight == 100
	}
	return step.Replicas.Percent || n == p.seen.Spec.LastStep()
}

// stepInfeasible reports whether the executor cannot carry out the current step as written: the step asks for less than all, and would replace the
// last pod of the stable version. A rollback in batches restores that version, so its steps always fit.
func (p *planner) stepInfeasible() bool {
	return p.m.RollbackReplicas == 0 && p.takesLast(p.m.Step) && !p.mayTakeLast(p.m.Step)
}

// ensureLastKept reports whether the step may go on to its pods. It stalls the release if the step does not fit. An autoscaler can remove pods at any
// time. So ensureLastKept first restores routes to new pods that are gone, and stops a controller that still replaces pods.
func (p *planner) ensureLastKept() bool {
	switch w := p.seen.Workload; {
	case !p.stepInfeasible():
		return true
	case p.templateRevision().Replicas == 0 && !p.routesRestored():
	case w.UpdateMechanism == rollout.MechanismRollingUpdate && w.TakenOver && !w.Paused:
		p.addActions(rollout.PauseWorkload{Workload: p.seen.Spec.Workload, Budget: pausedBudget(w, p.templateRevision().Replicas)})
	default:
		p.holdFor(p.fullStep())
	}
	return false
}

// fullStep returns the problem that a step asks for less than all, and would replace all pods.
func (p *planner) fullStep() rollout.Problem {
	w, step := p.seen.Workload, p.currentStep()
	asked := step.Replicas.String() + " of the pods"
	if !step.Replicas.Percent {
		asked = formatCount(step.Replicas.Value, "pod")
	}
	switch {
	case step.Weight != nil:
		asked += " and " + step.Weight.String() + " of the traffic"
	case len(step.Matches) > 0:
		asked += " and the requests that match"
	case step.Mirror != nil:
		asked += " and copies of requests"
	}
	advice := "scale " + p.seen.Spec.Workload.String() + " up"
	switch {
	case step.Replicas == (rollout.Amount{Value: 100, Percent: true}):
		advice = "let the step ask for fewer pods or for all of the traffic"
	case p.seen.Spec.Workload.Kind == "DaemonSet":
		advice = "let " + p.seen.Spec.Workload.String() + " run on more nodes"
	}
	if p.seen.Spec.Workload.IsDeployment() {
		advice += ", release the next version in canary style (spec.strategy.canary.enableExtraWorkloadForCanary: true)"
	}
	follows := "the step would replace the last one of the stable version: all requests would go to the new version"
	if p.stablePods() == 0 {
		follows = "none of the stable version: all requests go to the new version"
	}
	return rollout.Problem{Reason: rollout.ReasonFullStep, Message: fmt.Sprintf("Step %d asks for %s, but %s has %s, and %s; %s, or accept that with allowFullStep: true in step %d: kubectl edit rollout %s -n %s",
		p.m.Step, asked, p.seen.Spec.Workload, formatCount(w.DesiredReplicas, "pod"), follows, advice, p.m.Step, p.seen.Name, p.seen.Namespace)}
}

func formatCount(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// noStablePodsLeft reports whether the step leaves no pod of the stable version for traffic, and no such pod comes back.
func (p *planner) noStablePodsLeft() bool {
	w := p.seen.Workload
	if !p.replacesInPlace() || w.DesiredReplicas == 0 || p.hasNoPods() {
		return false
	}
	return p.desiredNewPods() >= w.DesiredReplicas && !p.stepInfeasible() || p.stablePods() == 0 && !p.stableReturns()
}

// stableReturns reports whether the workload's controller replaces a missing pod with a stable pod.
func (p *planner) stableReturns() bool {
	w := p.seen.Workload
	return w.RevertsTo == p.m.StableRevision && p.totalReplicas() < w.DesiredReplicas
}

// stepRoutesTraffic reports whether the step sends part of the traffic to the new version.
func (p *planner) stepRoutesTraffic() bool {
	return p.currentStep().RoutesTraffic() && !p.noStablePodsLeft()
}

// newVersionTraffic returns the new version's present share of the requests. It is "" outside of a release, and if the number of pods or a
// TrafficRouting decides. The share of a step counts once the release has reached the step. Until then, the share of the step before is in force.
func (p *planner) newVersionTraffic() string {
	state, routed := p.currentState(), p.m.RouteDigest != ""
	switch {
	case !state.Releasing():
		return ""
	case len(p.seen.Spec.Steps) == 0: // the Rollout is not valid now, and the executor leaves the routes as they are
		return p.m.Traffic
	case state == rollout.StateAborted && !routed:
		if where := p.trafficAfterAbort(); where != rollout.TrafficStable && where != rollout.TrafficUnready {
			return ""
		}
		return rollout.PercentNone
	case len(p.seen.Spec.Routing) == 0:
		return ""
	case p.stableTaken():
		return rollout.Percent(100).String()
	case p.trafficSharedByPods(routed):
		return ""
	case !routed:
		return rollout.PercentNone
	case state == rollout.StateAnalysis || state == rollout.StatePaused || state == rollout.StateReady:
		return p.currentStep().Traffic()
	}
	turned, weight := state == rollout.StateFinalising || state == rollout.StateAborted, p.routedWeight()
	if weight > 0 && (turned || p.m.Traffic == "") || turned && p.m.Traffic != rollout.TrafficMatches {
		return weight.String()
	}
	return p.m.Traffic
}

// versionPods returns the number of pods of the released version, even if the workload has another template by now.
func (p *planner) versionPods() (pods int32) {
	if !p.workloadGone() {
		pods = p.releasedRevision().Replicas
	}
	if c := p.seen.Canary; c != nil && c.Ours {
		pods += c.Replicas
	}
	return pods
}

// stableTaken reports whether the new version has replaced all stable pods.
func (p *planner) stableTaken() bool {
	return p.replacesInPlace() && !p.workloadGone() && p.seen.Workload.DesiredReplicas > 0 && p.stablePods() == 0 && p.versionPods() > 0
}

// trafficSharedByPods reports whether pods of both versions get requests through a stable Service, in proportion to their number.
func (p *planner) trafficSharedByPods(routed bool) bool {
	if p.versionPods() == 0 {
		return false
	}
	for routing, backend := range p.serviceBackends() {
		if open := backend.PinnedHash() != p.m.StableRevision; open && (!routed || routing.SeparateService() && p.replacesInPlace()) {
			return true
		}
	}
	return false
}
