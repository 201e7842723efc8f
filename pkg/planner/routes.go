package planner

import (
	"fmt"
	"iter"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sluice.dev/sluice/pkg/rollout"
)

// serviceBackends iterates over the entries of the routing and the observed state of their Services.
func (p *planner) serviceBackends() iter.Seq2[rollout.Routing, rollout.Backend] {
	return func(yield func(rollout.Routing, rollout.Backend) bool) {
		for i, routing := range p.seen.Spec.Routing {
			if !yield(routing, p.seen.Backend(i)) {
				return
			}
		}
	}
}

// eachSeparate reports whether is holds for all Services with a canary Service. It changes them together, until one has to wait.
func (p *planner) eachSeparate(is func(rollout.Routing, rollout.Backend) bool) bool {
	all := true
	for routing, backend := range p.serviceBackends() {
		if routing.SeparateService() && !is(routing, backend) {
			all = false
			if p.waiting {
				break
			}
		}
	}
	return all
}

// ensurePinned reports whether the stable Services serve stable pods only, if the step needs that. If a step leaves no stable pods, the executor
// opens the Services to all pods before the last stable pod goes.
func (p *planner) ensurePinned() bool {
	return !p.currentStep().RoutesTraffic() || p.eachSeparate(p.servicePinned)
}

func (p *planner) servicePinned(routing rollout.Routing, backend rollout.Backend) bool {
	switch {
	case p.noStablePodsLeft() && backend.PinnedHash() == "":
		return true
	case p.noStablePodsLeft():
		p.addActions(rollout.UnpinService{Name: routing.Service})
	case backend.StableService == nil:
		p.preflightPassed()
	case backend.PinnedHash() == p.m.StableRevision:
		return true
	case backend.PinnedHash() == "" && !(p.stableServes() && p.othersKept(routing, backend)):
	default:
		p.addActions(rollout.PinService{Name: routing.Service, Hash: p.m.StableRevision})
	}
	return false
}

// stableServes reports whether the executor may narrow a stable Service to the stable version. It may if a stable pod is ready, if no stable pod will
// come, or if no other pod serves.
func (p *planner) stableServes() bool {
	stable, others := p.splitRevisions()
	if stable == nil || stable.Ready > 0 || stable.Replicas == 0 && !p.stableReturns() {
		return true
	}
	for _, set := range others {
		if set.Ready > 0 {
			p.waitForEvent("waiting for a pod of the stable version, for only pods of other versions are ready, and serve meanwhile; if none can be ready, "+
				"give the new version to all: sluice promote %s -n %s --full", p.seen.Name, p.seen.Namespace)
			return false
		}
	}
	return true
}

// ensureCanaryService reports whether the canary Services exist and have ready endpoints, if the step needs that.
func (p *planner) ensureCanaryService() bool {
	return !p.stepRoutesTraffic() || p.eachSeparate(p.canaryServiceReady)
}

func (p *planner) canaryServiceReady(routing rollout.Routing, backend rollout.Backend) bool {
	hash, canary := p.newHash(), backend.CanaryService
	switch {
	case hash == "":
		p.waitForEvent("waiting for a pod of the new version")
		return false
	case canary == nil:
		p.addActions(rollout.CreateCanaryService{Name: routing.CanaryService, Stable: routing.Service, Hash: hash, Epoch: p.m.Epoch})
		return false
	case !canary.Ours:
		p.holdFor(p.foreignObject("Service", routing.CanaryService))
		return false
	case canary.Deleting:
		p.waitForEvent("waiting for an older Service %s to be deleted", routing.CanaryService)
		return false
	case canary.Hash != hash:
		p.addActions(rollout.PointCanaryService{Name: routing.CanaryService, Hash: hash})
		return false
	}
	want := p.desiredNewPods()
	allowed := p.seen.Spec.FailureThreshold.Of(want)
	if backend.CanaryEndpoints+allowed < want || want > 0 && backend.CanaryEndpoints == 0 {
		p.lacks = fmt.Sprintf("Service %s has not all of its %d endpoints", routing.CanaryService, want)
		p.waitForEvent("waiting for endpoints of Service %s: %d of %d are ready", routing.CanaryService, backend.CanaryEndpoints, want)
		return false
	}
	return true
}

// ensureRoutes reports whether every gateway object routes as the step wants. Seen.Routes lists objects that others refer to first, so a route never
// refers to a missing object. The planner creates all objects that the routes of the step need before it writes any of these routes.
func (p *planner) ensureRoutes() bool {
	if p.seen.Spec.Routing == nil || !p.stepRoutesTraffic() {
		return true
	}
	unmade, known := p.neededChildren()
	for _, route := range p.seen.Routes {
		r, rendered := route.Steps[p.stepNumber()]
		switch {
		case route.Missing || r.Refused != "":
			p.holdFor(*p.routeProblem(route))
			return false
		case !rendered:
			p.waitForEvent("waiting for the routes of step %d to be rendered", p.stepNumber())
			return false
		case !r.Applied && route.DeletingChild != "":
			p.waitForDeletingChild(route)
			return false
		case !r.Applied && p.holdForRoute(route.Object): // only while a release ends, because a problem stops no other part of it then
			return false
		case !r.Applied && p.routeInConflict(route):
			return false
		case r.ChildrenMissing:
			p.addActions(rollout.PrepareRoute{Object: route.Object, Step: p.stepNumber(), Digest: r.Digest})
			p.m.RouteDigest = r.Digest
		case !r.Applied && unmade: // its requests may need an object that the planner creates for another route
		case !r.Applied && p.now.Before(known):
			p.waitUntil(known, "waiting for the gateway to know the objects created for %s", route.Object)
			return false
		case !r.Applied:
			p.addActions(rollout.ApplyRoute{Object: route.Object, Step: p.stepNumber(), Digest: r.Digest})
			p.m.RouteDigest = r.Digest
		case !r.Accepted:
			p.waitForEvent("waiting for the gateway to accept %s", route.Object)
			return false
		}
	}
	return len(p.actions) == 0
}

// neededChildren reports whether the routes of the step lack an object that they need, and when gateways know the newest of these objects.
func (p *planner) neededChildren() (unmade bool, known time.Time) {
	for _, route := range p.seen.Routes {
		r := route.Steps[p.stepNumber()]
		unmade = unmade || r.ChildrenMissing
		if at := r.Since.Add(p.gracePeriod()); !r.Since.IsZero() && !r.Applied && at.After(known) {
			known = at
		}
	}
	return unmade, known
}

// routesRestored reports whether no route of this release is left, neither its own nor a route of a TrafficRouting. First the workload gets the
// stable pods back that the traffic needs.
func (p *planner) routesRestored() bool {
	return (p.endsWithSharedService() || p.replicasHandedBack()) && p.trafficRoutingFreed() && p.gatewaysRestored()
}

// gatewaysRestored reports whether this release has left all gateway objects. It restores the others in reverse order.
func (p *planner) gatewaysRestored() bool {
	var unseen *rollout.Problem
	for i := len(p.seen.Routes) - 1; i >= 0; i-- {
		route := p.seen.Routes[i]
		switch problem := p.unknownRouteProblem(route.Object); {
		case problem != nil && (route.Shaped || p.maybeRouted()):
			unseen = problem
		case route.Referenced && unseen != nil:
			// The object that the executor cannot restore may still refer to this object.
		case route.Shaped:
			p.addActions(rollout.RestoreRoute{Object: route.Object, Referenced: route.Referenced})
		}
	}
	if len(p.actions) > 0 {
		if p.m.RouteDigest == "" {
			p.m.RouteDigest, p.commitFirst = "unknown", true // once the routes are restored, their traffic is unknown
		}
		return false
	}
	if unseen != nil {
		p.holdFor(*unseen)
		return false
	}
	for _, route := range p.seen.Routes {
		if route.DeletingChild != "" {
			p.waitForDeletingChild(route)
			return false
		}
	}
	if p.m.RouteDigest != "" {
		until := metav1.NewMicroTime(p.now.Add(p.gracePeriod()).Truncate(time.Microsecond))
		p.m.RouteDigest, p.m.GraceUntil, p.m.GraceFor = "", &until, "traffic that is still on its way to the canary"
		p.m.Contests = nil // Sluice wrote the present content of the routes
		p.addRemark(p.currentState(), rollout.StateTrafficRestored, "Restored", "the gateway routes as it did before the release")
		return false // the remark is a transition of its own
	}
	return true
}

func (p *planner) waitForDeletingChild(route rollout.Route) {
	p.waitForEvent("waiting for %s to be deleted", route.DeletingChild)
}

// gracePeriod returns the waiting time before the executor removes an object that traffic might still reach. It is the longest time of any Service.
// Without a time in the spec, it is at least the time that the gateway is known to need.
func (p *planner) gracePeriod() time.Duration {
	var grace time.Duration
	for _, routing := range p.seen.Spec.Routing {
		grace = max(grace, routing.Grace)
		for _, route := range p.seen.Routes {
			if routing.Grace == rollout.DefaultGrace && slices.Contains(routing.Objects, route.Object) {
				grace = max(grace, route.Lag)
			}
		}
	}
	if r := p.seen.TrafficRouting; r != nil {
		grace = max(grace, r.Grace)
	}
	return grace
}

// graceOver reports whether no traffic can be on its way any more to the objects that are about to go.
func (p *planner) graceOver() bool {
	if p.m.GraceUntil == nil || !p.now.Before(p.m.GraceUntil.Time) {
		return true
	}
	p.waitUntil(p.m.GraceUntil.Time, "waiting for %s", p.m.GraceFor)
	return false
}

// serviceRestored reports whether the stable Services have their own selectors again.
func (p *planner) serviceRestored() bool {
	var pinned []string
	for routing, backend := range p.serviceBackends() {
		if backend.PinnedHash() != "" {
			pinned = append(pinned, routing.Service)
		}
	}
	if len(pinned) == 0 {
		return true
	}
	if p.rejectedGone() {
		for _, name := range pinned {
			p.addActions(rollout.UnpinService{Name: name})
		}
	}
	return false
}

// routesCleared reports whether all objects that were created for routes are gone. The executor deletes them only when no gateway can use them any
// more.
func (p *planner) routesCleared() bool {
	cleared := true
	for _, route := range p.seen.Routes {
		if !route.HasChildren {
			continue
		}
		cleared = false
		if p.graceOver() {
			p.addActions(rollout.ClearRoute{Object: route.Object})
		}
	}
	return cleared
}

// canaryServiceRemoved reports whether the canary Services are gone. The executor first deletes the objects that mirror requests to them, and waits
// until no traffic can reach the Services any more.
func (p *planner) canaryServiceRemoved() bool {
	if !p.routesCleared() {
		return false
	}
	done := true
	for routing, backend := range p.serviceBackends() {
		canary := backend.CanaryService
		if canary == nil || !canary.Ours || !routing.SeparateService() {
			continue
		}
		done = false
		if canary.Deleting {
			p.waitForEvent("waiting for Service %s to be deleted", routing.CanaryService)
		} else if p.graceOver() {
			p.addActions(rollout.DeleteCanaryService{Name: routing.CanaryService})
		}
	}
	return done
}

// withoutRouting restores all routing: traffic first, then the Services. If the stable Service came first, the canary would get its share of that
// Service in addition to its share of the routes. A TrafficRouting is not part of a step, and stays.
func (p *planner) withoutRouting() bool {
	return p.gatewaysRestored() && p.serviceRestored() && p.canaryServiceRemoved()
}
