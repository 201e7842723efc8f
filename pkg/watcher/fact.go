package watcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// fact is all that is kept of an object: who it is, and a digest of what a plan would see of it. A change that leaves the
// digest as it was wakes nobody.
type fact struct {
	metav1.ObjectMeta
	digest string
	// rollout is set for Rollouts: what they depend on, and when they asked to be looked at.
	rollout *dependencies
}

// projection picks what a plan sees of an object of some kind.
type projection func(*unstructured.Unstructured) any

// trim is what a source keeps of each object: names and the digest.
func trim(project projection) func(any) (any, error) {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		f := &fact{ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		}}
		if name, ok := u.GetLabels()[serviceNameLabel]; ok {
			f.Labels = map[string]string{serviceNameLabel: name}
		}
		if u.GetKind() == api.KindRollout {
			f.rollout = dependenciesOf(u)
		}
		f.digest = digest(u.GetUID(), u.GetDeletionTimestamp() != nil, project(u))
		return f, nil
	}
}

func digest(parts ...any) string {
	body, err := json.Marshal(parts)
	if err != nil {
		// Content of the API server always encodes; anything else counts as changed.
		body = []byte(fmt.Sprint(parts...))
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:12])
}

// serviceNameLabel names, on an EndpointSlice, its Service.
const serviceNameLabel = "kubernetes.io/service-name"

// rolloutFacts are the spec, the marks, and commands in the status that no run of ours has taken up. Our own commits change
// none of them.
func rolloutFacts(u *unstructured.Unstructured) any {
	state, _, _ := unstructured.NestedString(u.Object, "status", "sluice", "state")
	return []any{u.GetGeneration(), u.GetAnnotations(), u.GetFinalizers(), inbox(u, state)}
}

// inbox is what stands in canaryStatus and was not written by the machine: an approval or a jump.
func inbox(u *unstructured.Unstructured, state string) any {
	step, _, _ := unstructured.NestedInt64(u.Object, "status", "sluice", "step")
	canary, _, _ := unstructured.NestedMap(u.Object, "status", "canaryStatus")
	shown, _, _ := unstructured.NestedString(canary, "currentStepState")
	next, _, _ := unstructured.NestedInt64(canary, "nextStepIndex")
	command := []any{"", int64(0)}
	if shown != state && rollout.State(state).InStep() {
		seq, _, _ := unstructured.NestedInt64(u.Object, "status", "sluice", "pauseSeq")
		command = []any{shown, seq}
	}
	if next != step+1 && next != int64(api.NoNextStep) {
		command = append(command, next)
	}
	return command
}

func deploymentFacts(u *unstructured.Unstructured) any {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	var seen []any
	for _, field := range []string{"observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
		seen = append(seen, status[field])
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	return append(seen, u.GetGeneration(), labels[api.LabelWorkloadType], labels[api.LabelRolloutID],
		annotations[api.AnnotationRollout], annotations[api.AnnotationInProgressing], annotations[api.AnnotationRolloutID])
}

func serviceFacts(u *unstructured.Unstructured) any {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	return []any{spec["selector"], spec["type"], u.GetLabels()[api.LabelRolloutUID]}
}

// endpointFacts are how many endpoints are ready.
func endpointFacts(u *unstructured.Unstructured) any {
	endpoints, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
	ready := 0
	for _, e := range endpoints {
		if m, ok := e.(map[string]any); ok {
			if on, found, _ := unstructured.NestedBool(m, "conditions", "ready"); on || !found {
				ready++
			}
		}
	}
	return ready
}

// routeFacts are whether the object is as we wrote it, and otherwise what it is. Our own write reads as one change at most.
func routeFacts(u *unstructured.Unstructured) any {
	live := traffic.Digest(u)
	if traffic.Kept(u) == live {
		return "as written"
	}
	return live
}

func contentFacts(u *unstructured.Unstructured) any {
	return []any{u.Object["data"], u.GetAnnotations()[api.AnnotationOverride]}
}

// presenceFacts are for objects of which only the existence and the generation matter.
func presenceFacts(u *unstructured.Unstructured) any { return u.GetGeneration() }
