package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// generatedBase is how many characters of a ReplicaSet's name the names of its pods begin with.
const generatedBase = 58

// readyEndpoints counts the ready new pods behind a canary Service. After the executor points the Service to other
// pods, its EndpointSlices still list the old pods for a moment. So only pods of the new version count. A pod with
// addresses of two families counts once.
func (s *Snapshot) readyEndpoints(slices []*discoveryv1.EndpointSlice) int32 {
	isNew, ready := s.newPodMatcher(), map[string]bool{}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if isReady(e) && e.TargetRef != nil && isNew(e.TargetRef) {
				ready[string(e.TargetRef.UID)+"/"+e.TargetRef.Name] = true
			}
		}
	}
	return int32(len(ready))
}

// newPodMatcher returns a function that recognizes the pods of the new version. It goes by the names of the pods of a
// ReplicaSet, and by UID for other workloads.
func (s *Snapshot) newPodMatcher() func(*corev1.ObjectReference) bool {
	if s.object.isPresent() {
		known := map[types.UID]bool{}
		for _, pod := range s.object.NewPods() {
			known[pod.UID] = true
		}
		return func(pod *corev1.ObjectReference) bool { return known[pod.UID] }
	}
	set := s.newReplicaSetName()
	pods := podPrefix(set)
	return func(pod *corev1.ObjectReference) bool { return set != "" && strings.HasPrefix(pod.Name, pods) }
}

// newReplicaSetName returns the name of the ReplicaSet of the new pods, "" while it does not exist.
func (s *Snapshot) newReplicaSetName() string {
	if s.spec.Style == rollout.StyleCanary {
		if s.Seen.Canary == nil || s.Seen.Canary.Hash == "" {
			return ""
		}
		return s.canary.Name + "-" + s.Seen.Canary.Hash
	}
	if set := s.newReplicaSet(); set != nil {
		return set.Name
	}
	return ""
}

// isReady reads an endpoint as its API documents: an absent condition counts as good.
func isReady(e discoveryv1.Endpoint) bool {
	ready, terminating := e.Conditions.Ready, e.Conditions.Terminating
	return len(e.Addresses) > 0 && (ready == nil || *ready) && (terminating == nil || !*terminating)
}

// podPrefix returns the prefix of the names of a ReplicaSet's pods.
func podPrefix(set string) string {
	pods := set + "-"
	return pods[:min(len(pods), generatedBase)]
}
