package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensurePinned reports whether the stable Service serves stable pods only, where the step needs that. A step that leaves it none opens it
// to all pods, before the last of its own goes.
func (p *planner) ensurePinned() bool {
	routing, stable := p.seen.Spec.Routing, p.seen.StableService
	if !routing.SeparateService() || !p.step().RoutesTraffic() {
		return true
	}
	if p.nothingStable() {
		return p.serviceOpened()
	}
	if stable == nil {
		p.preflight()
		return false
	}
	if stable.Hash == p.m.StableRevision {
		return true
	}
	p.act(PinService{Name: routing.Service, Hash: p.m.StableRevision})
	return false
}

// ensureCanaryService reports whether the canary Service exists and has ready endpoints, where the step needs that.
func (p *planner) ensureCanaryService() bool {
	routing, canary := p.seen.Spec.Routing, p.seen.CanaryService
	if !routing.SeparateService() || !p.routes() {
		return true
	}
	hash := p.newHash()
	switch {
	case hash == "":
		p.wait("waiting for a pod of the new version")
		return false
	case canary == nil:
		p.act(CreateCanaryService{Name: routing.CanaryService, Stable: routing.Service, Hash: hash, Epoch: p.m.Epoch})
		return false
	case !canary.Ours:
		p.holdFor(p.foreignObject("Service", routing.CanaryService))
		return false
	case canary.Deleting:
		p.wait("waiting for an older Service %s to be deleted", routing.CanaryService)
		return false
	case canary.Hash != hash:
		p.act(PointCanaryService{Name: routing.CanaryService, Hash: hash})
		return false
	}
	want := p.wanted()
	allowed := p.seen.Spec.FailureThreshold.Of(want)
	if p.seen.CanaryEndpoints+allowed < want || want > 0 && p.seen.CanaryEndpoints == 0 {
		p.lacks = fmt.Sprintf("Service %s has not all of its %d endpoints", routing.CanaryService, want)
		p.wait("waiting for endpoints of Service %s: %d of %d are ready", routing.CanaryService, p.seen.CanaryEndpoints, want)
		return false
	}
	return true
}

// ensureRoutes reports whether every gateway object routes as the step wants. Objects that back others come first in
// Seen.Routes, so that a route never refers to what is not there yet.
func (p *planner) ensureRoutes() bool {
	if p.seen.Spec.Routing == nil || !p.routes() {
		return true
	}
	for _, route := range p.seen.Routes {
		r, rendered := route.Steps[p.stepNumber()]
		switch {
		case route.Missing || r.Refused != "":
			p.holdFor(*p.routeProblem(route))
			return false
		case !rendered:
			p.wait("waiting for the routes of step %d to be rendered", p.stepNumber())
			return false
		case !r.Applied && p.contested(route):
			return false
		case !r.Applied:
			p.act(ApplyRoute{Object: route.Object, Step: p.stepNumber(), Digest: r.Digest})
			p.m.RouteDigest = r.Digest
		case !r.Accepted:
			p.wait("waiting for the gateway to accept %s", route.Object)
			return false
		}
	}
	return len(p.actions) == 0
}

// routesRestored reports whether no route of this release is left: neither one of its own, nor of a TrafficRouting for its sake.
func (p *planner) routesRestored() bool {
	return p.trafficRoutingFreed() && p.gatewaysRestored()
}

// gatewaysRestored reports whether nothing of this release is left on any gateway object, and restores the rest, in reverse order.
func (p *planner) gatewaysRestored() bool {
	var unseen *Problem
	for i := len(p.seen.Routes) - 1; i >= 0; i-- {
		route := p.seen.Routes[i]
		switch problem := p.blindTo(route.Object); {
		case problem != nil && (route.Ours || p.maybeRouted()):
			unseen = problem
		case route.Backs && unseen != nil:
			// The object that cannot be restored may still refer to what this one defines.
		case route.Ours:
			p.act(RestoreRoute{Object: route.Object, Backs: route.Backs})
		}
	}
	if len(p.actions) > 0 {
		if p.m.RouteDigest == "" {
			p.m.RouteDigest = "unknown"
		}
		return false
	}
	if unseen != nil {
		p.holdFor(*unseen)
		return false
	}
	if p.m.RouteDigest != "" {
		until := metav1.NewMicroTime(p.now.Add(p.grace()).Truncate(time.Microsecond))
		p.m.RouteDigest, p.m.GraceUntil, p.m.GraceFor = "", &until, "traffic that is still on its way to the canary"
		p.m.Contests = nil // what is on the routes now, we put there
		p.remark(p.state(), StateTrafficRestored, "Restored", "the gateway routes as it did before the release")
		return false // it is a turn of its own
	}
	return true
}

// grace is spent before something goes away that traffic might still reach.
func (p *planner) grace() (grace time.Duration) {
	if r := p.seen.Spec.Routing; r != nil {
		grace = r.Grace
	}
	if r := p.seen.TrafficRouting; r != nil {
		grace = max(grace, r.Grace)
	}
	return grace
}

// graceOver reports whether traffic can no longer be on its way to what is about to go.
func (p *planner) graceOver() bool {
	if p.m.GraceUntil == nil || !p.now.Before(p.m.GraceUntil.Time) {
		return true
	}
	p.waitUntil(p.m.GraceUntil.Time, "waiting for %s", p.m.GraceFor)
	return false
}

// serviceRestored reports whether the stable Service has its own selector back.
func (p *planner) serviceRestored() bool {
	stable := p.seen.StableService
	if stable == nil || stable.Hash == "" || p.seen.Spec.Routing == nil {
		return true
	}
	if p.rejectedGone() {
		p.act(UnpinService{Name: p.seen.Spec.Routing.Service})
	}
	return false
}

// serviceOpened reports whether the stable Service selects all versions: a step leaves it no pods of its own.
func (p *planner) serviceOpened() bool {
	stable := p.seen.StableService
	if stable == nil || stable.Hash == "" {
		return true
	}
	p.act(UnpinService{Name: p.seen.Spec.Routing.Service})
	return false
}

// canaryServiceRemoved reports whether the canary Service is gone; it goes only when no traffic can reach it any more.
func (p *planner) canaryServiceRemoved() bool {
	canary := p.seen.CanaryService
	if canary == nil || !canary.Ours || !p.seen.Spec.Routing.SeparateService() {
		return true
	}
	if canary.Deleting {
		p.wait("waiting for Service %s to be deleted", p.seen.Spec.Routing.CanaryService)
		return false
	}
	if p.graceOver() {
		p.act(DeleteCanaryService{Name: p.seen.Spec.Routing.CanaryService})
	}
	return false
}

// withoutRouting gives all routing back: traffic first, then the Services. With the stable Service first, the canary would get
// its share of that Service on top of what the routes still give it. A TrafficRouting is no part of a step, and stays.
func (p *planner) withoutRouting() bool {
	return p.gatewaysRestored() && p.serviceRestored() && p.canaryServiceRemoved()
}
