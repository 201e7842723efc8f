package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// backend has the Services that one entry of the routing routes to.
type backend struct {
	routing        rollout.Routing
	stable, canary *corev1.Service // nil if it does not exist
	// canaryEndpoints and stableEndpoints are the EndpointSlices of the two Services.
	canaryEndpoints, stableEndpoints endpointSlices
	// liveParts are the parts that the executor read from the API server, or got as the answer to a write.
	liveParts partSet
}

// endpointSlices are the EndpointSlices of a Service, as the executor read them last.
type endpointSlices struct {
	slices []*discoveryv1.EndpointSlice
	// version is the resourceVersion of the list, when it is live.
	version string
	read    bool
}

// backendOf returns the backend with a Service, nil if no backend has it.
func (s *Snapshot) backendOf(service string) *backend {
	for _, b := range s.backends {
		if b.routing.Service == service || b.routing.CanaryService == service {
			return b
		}
	}
	return nil
}

func (s *Snapshot) observeBackend(b *backend) rollout.Backend {
	var seen rollout.Backend
	name, uid := s.rollout.Name, string(s.rollout.UID)
	if b.stable != nil {
		svc := traffic.ObserveService(b.stable, name, uid)
		seen.StableService = &svc
		if b.stableEndpoints.read {
			seen.Stable = s.stableSelection(b)
		}
	}
	if b.canary != nil {
		svc := traffic.ObserveService(b.canary, name, uid)
		seen.CanaryService = &svc
		seen.CanaryEndpoints = s.readyEndpoints(b.canaryEndpoints.slices)
	}
	return seen
}

// routeRefs returns the gateway objects of all entries of the routing.
func (s *Snapshot) routeRefs() []rollout.Ref {
	var refs []rollout.Ref
	for _, entry := range s.spec.Routing {
		for _, ref := range entry.Objects {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// backendsLive reports whether a part of every backend is live.
func (s *Snapshot) backendsLive(p part) bool {
	return len(s.backends) > 0 && !slices.ContainsFunc(s.backends, func(b *backend) bool { return !b.liveParts[p] })
}

// stableEndpointsRead reports whether the executor has read the EndpointSlices of all stable Services that it may narrow.
func (s *Snapshot) stableEndpointsRead() bool {
	return !slices.ContainsFunc(s.backends, func(b *backend) bool { return b.routing.SeparateService() && !b.stableEndpoints.read })
}

// backendsFingerprint tells the states of a part of the backends apart.
func (s *Snapshot) backendsFingerprint(p part) (all string) {
	for _, b := range s.backends {
		switch p {
		case partStableService:
			all += fingerprintOf(b.stable) + "\n"
		case partCanaryService:
			all += fingerprintOf(b.canary) + "\n"
		case partEndpoints:
			all += fingerprintsOf(b.canaryEndpoints.slices) + "\n"
		case partStableEndpoints:
			all += fingerprintsOf(b.stableEndpoints.slices) + "\n"
		}
	}
	return all
}
