package planner

import (
	"fmt"
	"sluice.dev/sluice/pkg/rollout"
	"strings"
	"time"
)

// This file checks the stable side of a release. Requests to a stable Service must reach pods of the stable version. Pods of other workloads must not
// lose their requests when the executor narrows the Service to that version.

const (
	// maxNamed is the maximum number of pods that a message names.
	maxNamed = 3
	// endpointsLate is the time that the controller of EndpointSlices may take to list a ready pod.
	endpointsLate = 5 * time.Second
)

// ensureReached reports whether all stable Services of the step reach the stable version. No step goes on before they do.
func (p *planner) ensureReached() bool {
	return !p.stepRoutesTraffic() || p.eachSeparate(p.stableReached)
}

// stableProven reports whether the executor may begin to narrow the stable Services: each reaches the stable version, and no pod of
// another workload loses requests.
func (p *planner) stableProven() bool {
	return !p.narrowsServices() || p.eachSeparate(p.stableReached) && p.eachSeparate(p.othersKept)
}

// narrowsServices reports whether any step keeps traffic on stable pods by narrowing a stable Service to them.
func (p *planner) narrowsServices() bool {
	for i, step := range p.seen.Spec.Steps {
		if step.RoutesTraffic() && !(p.takesLast(int32(i+1)) && p.mayTakeLast(int32(i+1))) {
			return true
		}
	}
	return false
}

// stableReached reports whether a stable Service reaches a ready pod of the stable version. Unready stable pods do not stall a release, because the
// new version may fix them.
func (p *planner) stableReached(routing rollout.Routing, backend rollout.Backend) bool {
	ready := p.stableReady()
	if ready == 0 || p.seen.Spec.AllowUnreachable || backend.StableService == nil {
		return true
	}
	if pin := backend.PinnedHash(); pin != "" && pin != p.m.StableRevision {
		return true // an executor of an earlier release has narrowed it; this one will do so to the stable version
	}
	switch of := backend.StableEndpoints(p.m.StableRevision); {
	case of.UnreachableReason != "":
		p.holdFor(p.stableUnreachable(routing.Service, of))
		return false
	case of.Ready > 0:
		return true
	case p.currentState() == rollout.StateInitializing && !p.now.Before(p.stateSince().Add(endpointsLate)):
		p.holdFor(p.stableUnreachable(routing.Service, rollout.Endpoints{UnreachableReason: "its EndpointSlices list none of them as ready"}))
		return false
	}
	p.lacks = fmt.Sprintf("Service %s reaches no ready pod of the stable version", routing.Service)
	if p.currentState() == rollout.StateInitializing {
		p.waitUntil(p.stateSince().Add(endpointsLate), "waiting for endpoints of Service %s: no pod of the stable version is ready there", routing.Service)
	} else {
		p.waitForEvent("waiting for endpoints of Service %s: no pod of the stable version is ready there; to go on all the same, set spec.strategy.allowUnreachableStable: true", routing.Service)
	}
	return false
}

// stableReady returns the number of ready pods of the stable version.
func (p *planner) stableReady() int32 {
	if p.workloadGone() {
		return 0
	}
	stable, _ := p.splitRevisions()
	if stable == nil {
		return 0
	}
	return min(stable.Ready, stable.Replicas)
}

// stableUnreachable returns the problem that a stable Service reaches no ready pod of the stable version.
func (p *planner) stableUnreachable(service string, of rollout.Endpoints) rollout.Problem {
	message := fmt.Sprintf("Service %[1]s reaches no ready pod of the stable version, because %[2]s, so that requests to it fail; correct the Service: kubectl edit service %[1]s -n %[3]s",
		service, of.UnreachableReason, p.seen.Namespace)
	if p.currentState() != rollout.StateAborted {
		message += "; or accept that with spec.strategy.allowUnreachableStable: true"
	}
	return rollout.Problem{Reason: rollout.ReasonStableUnreachable, Message: message}
}

// othersKept reports whether no pod of another workload loses its requests when the executor narrows the stable Service. A narrowed Service selects
// no such pod.
func (p *planner) othersKept(routing rollout.Routing, backend rollout.Backend) bool {
	if p.seen.Spec.AllowDropped || backend.Stable == nil || len(backend.Stable.Others) == 0 || backend.PinnedHash() != "" {
		return true
	}
	others := backend.Stable.Others
	named := strings.Join(others[:min(maxNamed, len(others))], ", ")
	if more := len(others) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	p.holdFor(rollout.Problem{Reason: rollout.ReasonEndpointsDropped, Message: fmt.Sprintf(
		"Service %[1]s selects pods of other workloads as well, which would get no requests through it during the release: %[2]s; "+
			"give %[3]s a Service of its own: kubectl edit service %[1]s -n %[4]s; or accept that with spec.strategy.allowDroppedEndpoints: true",
		routing.Service, named, p.seen.Spec.Workload, p.seen.Namespace)})
	return false
}

// stableUnready reports whether requests to the stable version fail, although all stable Services are narrowed to it, because none of its pods is
// ready.
func (p *planner) stableUnready() bool {
	w := p.seen.Workload
	if !p.currentState().InStep() || p.workloadGone() || w.DesiredReplicas == 0 || !p.stepRoutesTraffic() || !p.pinnedToStable() {
		return false
	}
	return p.stablePods() > 0 && p.stableReady() == 0
}

// unreachedService returns the name of a stable Service that sends no requests to a pod of the stable version, with the reason; "" without one.
func (p *planner) unreachedService() (service string, of rollout.Endpoints) {
	for routing, backend := range p.serviceBackends() {
		switch of := backend.StableEndpoints(p.m.StableRevision); {
		case !routing.SeparateService() || backend.StableService != nil && (backend.Stable == nil || of.Ready > 0):
		case backend.StableService == nil || p.stableReady() > 0:
			return routing.Service, of
		}
	}
	return "", rollout.Endpoints{}
}
