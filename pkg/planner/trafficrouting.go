package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file asks for the TrafficRouting that a Rollout names, from the first ready pods of the first step until traffic leaves them. The
// TrafficRouting routes by itself.

// trafficRoutingThere reports whether the named TrafficRouting exists.
func (p *planner) trafficRoutingThere() bool {
	switch routing := p.seen.TrafficRouting; {
	case p.seen.Spec.TrafficRouting == "":
		return true
	case routing == nil:
		p.holdFor(p.missingTrafficRouting("does not exist"))
		return false
	case routing.Deleting:
		p.holdFor(p.missingTrafficRouting("is being deleted"))
		return false
	}
	return true
}

// ensureTrafficRouting asks the TrafficRouting to route, and reports whether it does.
func (p *planner) ensureTrafficRouting() bool {
	routing, name := p.seen.TrafficRouting, p.seen.Spec.TrafficRouting
	switch {
	case name == "":
		return true
	case !p.trafficRoutingThere():
		return false
	case !routing.Claimed && routing.Finalizing:
		p.waitForEvent("waiting for TrafficRouting %s, which takes the routes of an earlier release back: %s", name, routing.Message)
		return false
	case !routing.Claimed:
		p.addActions(rollout.ClaimTrafficRouting{Name: name})
		if p.m.RouteDigest == "" {
			p.m.RouteDigest = "TrafficRouting " + name
		}
		return false
	case !routing.Applied:
		p.waitForEvent("waiting for TrafficRouting %s to be applied: %s", name, routing.Message)
		return false
	}
	return true
}

// trafficRoutingFreed reports whether the TrafficRouting no longer routes for this release. It may go on for other Rollouts.
func (p *planner) trafficRoutingFreed() bool {
	routing, name := p.seen.TrafficRouting, p.seen.Spec.TrafficRouting
	switch {
	case routing == nil:
		return true
	case routing.Claimed:
		if p.m.RouteDigest == "" {
			p.m.RouteDigest, p.commitFirst = "unknown", true // once it is released, its traffic is unknown
		}
		p.addActions(rollout.FreeTrafficRouting{Name: name})
		return false
	case p.m.RouteDigest != "" && !routing.Inactive:
		p.waitForEvent("waiting for TrafficRouting %s to take its routes back: %s", name, routing.Message)
		return false
	}
	return true
}

func (p *planner) missingTrafficRouting(is string) rollout.Problem {
	name := p.seen.Spec.TrafficRouting
	return rollout.Problem{Reason: rollout.ReasonTrafficRoutingMissing, Message: fmt.Sprintf(
		"TrafficRouting %s %s; create it again, or take its name out of the Rollout (trafficRoutingRef, or the annotation %s): kubectl get trafficroutings -n %s",
		name, is, api.AnnotationTrafficRouting, p.seen.Namespace)}
}
