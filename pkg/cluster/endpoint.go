package cluster

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// generatedBase is how much of a ReplicaSet's name the names of its pods begin with.
const generatedBase = 58

// readyEndpoints counts the ready pods of the canary behind its Service. Right after the Service was pointed to other pods its
// EndpointSlices still list the old ones, so only pods of the canary's current ReplicaSet count. A pod with addresses of two
// families counts once.
func (s *Snapshot) readyEndpoints() int32 {
	if s.Seen.Canary == nil || s.Seen.Canary.Hash == "" {
		return 0
	}
	pods := s.canary.Name + "-" + s.Seen.Canary.Hash + "-"
	pods = pods[:min(len(pods), generatedBase)]
	ready := map[string]bool{}
	for _, slice := range s.endpointSlices {
		for _, e := range slice.Endpoints {
			if isReady(e) && e.TargetRef != nil && strings.HasPrefix(e.TargetRef.Name, pods) {
				ready[string(e.TargetRef.UID)+"/"+e.TargetRef.Name] = true
			}
		}
	}
	return int32(len(ready))
}

// isReady reads an endpoint as its API documents: a condition that is absent says nothing bad.
func isReady(e discoveryv1.Endpoint) bool {
	ready, terminating := e.Conditions.Ready, e.Conditions.Terminating
	return len(e.Addresses) > 0 && (ready == nil || *ready) && (terminating == nil || !*terminating)
}
