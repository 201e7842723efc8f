package cluster

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"sluice.dev/sluice/pkg/rollout"
)

// generatedBase is how much of a ReplicaSet's name the names of its pods begin with.
const generatedBase = 58

// readyEndpoints counts the ready new pods behind the canary Service. Right after the Service was pointed to other pods its
// EndpointSlices still list the old ones, so only pods of the current ReplicaSet count. A pod with addresses of two families
// counts once.
func (s *Snapshot) readyEndpoints() int32 {
	set := s.newSetName()
	if set == "" {
		return 0
	}
	pods := set + "-"
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

// newSetName is the name of the ReplicaSet that makes the new pods, "" while there is none.
func (s *Snapshot) newSetName() string {
	if s.spec.Style == rollout.StyleCanary {
		if s.Seen.Canary == nil || s.Seen.Canary.Hash == "" {
			return ""
		}
		return s.canary.Name + "-" + s.Seen.Canary.Hash
	}
	if set := s.newSet(); set != nil {
		return set.Name
	}
	return ""
}

// isReady reads an endpoint as its API documents: a condition that is absent says nothing bad.
func isReady(e discoveryv1.Endpoint) bool {
	ready, terminating := e.Conditions.Ready, e.Conditions.Terminating
	return len(e.Addresses) > 0 && (ready == nil || *ready) && (terminating == nil || !*terminating)
}
