package watcher

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// serviceNameLabel names, on an EndpointSlice, its Service.
const serviceNameLabel = "kubernetes.io/service-name"

// rolloutFacts are the spec, and as a call what others wrote into the status and no run of ours has taken up: commits change
// neither of them.
func rolloutFacts(u *unstructured.Unstructured) facts {
	f := facts{now: []any{u.GetGeneration(), u.GetAnnotations()[api.AnnotationRollingStyle]}}
	if call := rolloutCall(u); call != "" {
		f.calls = []string{call}
	}
	return f
}

func rolloutCall(u *unstructured.Unstructured) string {
	var r api.Rollout
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
		return fmt.Sprint("unreadable: ", err)
	}
	if r.DeletionTimestamp == nil && !slices.Contains(r.Finalizers, api.FinalizerRollout) {
		return "no finalizer"
	}
	m, c := r.Status.Sluice, r.Status.CanaryStatus
	if m == nil || c == nil || m.Epoch == 0 {
		return ""
	}
	state, shown := rollout.State(m.State), c.CurrentStepState
	approved := shown == api.StepReady && state != rollout.StateReady
	if approved || state.InStep() && string(shown) != m.State || c.CurrentStepIndex != m.Step || c.NextStepIndex != nextIndex(&r) {
		return fmt.Sprint("wrote ", shown, c.CurrentStepIndex, c.NextStepIndex, " into pause ", m.PauseSeq)
	}
	return ""
}

// nextIndex is what the machine shows as the next step; what is shown already where the spec cannot be read.
func nextIndex(r *api.Rollout) int32 {
	spec, err := rollout.Parse(r)
	switch {
	case err != nil:
		return r.Status.CanaryStatus.NextStepIndex
	case int(r.Status.Sluice.Step) >= len(spec.Steps):
		return api.NoNextStep
	}
	return r.Status.Sluice.Step + 1
}

// deploymentFacts are what its owner wants, and whether its controller has got there. How far that one has come in between is
// shown, and no more.
func deploymentFacts(u *unstructured.Unstructured) facts {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	replicas := int64(1)
	if n, ok := spec["replicas"].(int64); ok {
		replicas = n
	}
	count := func(field string) int64 { n, _ := status[field].(int64); return n }
	updated, total, available := count("updatedReplicas"), count("replicas"), count("availableReplicas")
	observed := count("observedGeneration") >= u.GetGeneration()
	f := facts{
		now: []any{
			digest(spec["template"]), spec["selector"], spec["strategy"], labels[api.LabelRolloutID], annotations[api.AnnotationRolloutID],
		},
		soon: []any{
			u.GetGeneration(), observed, updated, total, available,
			labels[api.LabelWorkloadType], annotations[api.AnnotationRollout], annotations[api.AnnotationInProgressing],
		},
	}
	if observed && updated >= replicas && total <= updated {
		f.calls = append(f.calls, "runs its version everywhere")
		if available >= replicas-maxUnavailable(spec, replicas) {
			f.calls = append(f.calls, "runs its version everywhere, available")
		}
	}
	if labels[api.LabelRolloutUID] != "" { // an executor scales it itself, and waits for all pods
		f.calls = nil
		if observed && updated >= replicas && available >= replicas && replicas > 0 {
			f.calls = []string{fmt.Sprint(replicas, " pods are available")}
		}
		return f
	}
	f.now = append(f.now.([]any), replicas, spec["paused"])
	// Without these the next change is not held.
	for mark, value := range map[string]string{
		"workload-type": labels[api.LabelWorkloadType], "rollout": annotations[api.AnnotationRollout], "in-progressing": annotations[api.AnnotationInProgressing],
	} {
		if value == "" {
			f.calls = append(f.calls, "bears no mark "+mark)
		}
	}
	return f
}

func maxUnavailable(spec map[string]any, replicas int64) int64 {
	value, found, err := unstructured.NestedFieldNoCopy(spec, "strategy", "rollingUpdate", "maxUnavailable")
	if err != nil || !found {
		return 0
	}
	budget := intstr.Parse(fmt.Sprint(value))
	n, err := intstr.GetScaledValueFromIntOrPercent(&budget, int(replicas), false)
	if err != nil {
		return 0
	}
	return int64(n)
}

// serviceFacts are the selector of its owner; that it selects all revisions is a call, for during a release it must not.
func serviceFacts(u *unstructured.Unstructured) facts {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
	hash := selector[api.LabelPodTemplateHash]
	delete(selector, api.LabelPodTemplateHash)
	f := facts{now: []any{selector, spec["type"], u.GetLabels()[api.LabelRolloutUID]}, soon: hash}
	if hash == "" {
		f.calls = []string{"selects all revisions"}
	}
	return f
}

// endpointFacts are how many endpoints are ready.
func endpointFacts(u *unstructured.Unstructured) facts {
	endpoints, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
	ready := 0
	for _, e := range endpoints {
		if m, ok := e.(map[string]any); ok {
			if on, found, _ := unstructured.NestedBool(m, "conditions", "ready"); on || !found {
				ready++
			}
		}
	}
	return facts{now: ready}
}

// routeFacts are what the gateway says of the object, and as a call what it is unless it is as we wrote it.
func routeFacts(u *unstructured.Unstructured) facts {
	status, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status")
	f := facts{now: verdicts(status)}
	annotations, live := u.GetAnnotations(), traffic.Digest(u)
	if traffic.Kept(u) != live || annotations[api.AnnotationReleases] == "" || annotations[api.AnnotationOriginalSpec] == "" {
		f.calls = []string{live}
	}
	return f
}

// verdicts are all conditions inside a gateway object's status, without their times and texts.
func verdicts(status any) (list []any) {
	switch v := status.(type) {
	case []any:
		for _, e := range v {
			list = append(list, verdicts(e)...)
		}
	case map[string]any:
		if v["type"] != nil && v["status"] != nil {
			return []any{v["type"], v["status"], v["observedGeneration"]}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, verdicts(v[key])...)
		}
	}
	return list
}

func contentFacts(u *unstructured.Unstructured) facts {
	return facts{now: []any{u.Object["data"], u.GetAnnotations()[api.AnnotationOverride]}}
}

// presenceFacts are for objects of which only the existence and the generation matter.
func presenceFacts(u *unstructured.Unstructured) facts { return facts{now: u.GetGeneration()} }

// definitionFacts are the generation and whether the kind is established.
func definitionFacts(u *unstructured.Unstructured) facts {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" {
			return facts{now: []any{u.GetGeneration(), m["status"]}}
		}
	}
	return facts{now: u.GetGeneration()}
}
