package watcher

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

// workloadFacts are those of a workload that is no Deployment, as deploymentFacts are of one: what its owner wants, how far its controller
// has come while a release is on, and otherwise whether it has got there.
func workloadFacts(u *unstructured.Unstructured) facts {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	c := countsOf(u)
	f := facts{
		keptFacts: keptFacts{claim: annotations[api.AnnotationRollout]},
		now: []any{
			nestedField(u, "spec", "template"), nestedField(u, "spec", "selector"), nestedField(u, "spec", "updateStrategy"), c.replicas,
			labels[api.LabelRolloutID], annotations[api.AnnotationRolloutID],
		},
		soon: []any{
			u.GetGeneration(), c.observed, c.updated, c.total, c.available,
			labels[api.LabelWorkloadType], annotations[api.AnnotationRollout], annotations[api.AnnotationInProgressing],
		},
		calls: missingMarks(labels, annotations),
	}
	if _, progresses := annotations[api.AnnotationInProgressing]; progresses { // every pod that is ready lets another one go
		f.now = append(f.now.([]any), c.progressValues()...)
	}
	if c.observed && c.updated >= c.replicas-c.keptByPartition && c.total <= c.updated+c.keptByPartition {
		f.calls = append(f.calls, "runs its version everywhere")
		if c.available >= c.replicas-c.maxUnavailable {
			f.calls = append(f.calls, "runs its version everywhere, available")
		}
	}
	return f
}

// missingMarks are those without which the next change is not held.
func missingMarks(labels, annotations map[string]string) (calls []string) {
	for _, mark := range [...]struct{ value, missing string }{
		{labels[api.LabelWorkloadType], "bears no type"}, {annotations[api.AnnotationRollout], "bears no claim"}, {annotations[api.AnnotationInProgressing], "is not in progress"},
	} {
		if mark.value == "" {
			calls = append(calls, mark.missing)
		}
	}
	return calls
}

// counts are how far a workload's controller has come.
type counts struct {
	replicas, total, updated, ready, available int64
	// updatedReady is of kinds that tell it; where none of the others moves, one pod has become ready while another one has ceased to be.
	updatedReady int64
	// current and update are the revisions that its controller knows.
	current, update string
	// keptByPartition is how many pods the partition leaves in the version that they have.
	keptByPartition, maxUnavailable int64
	observed                        bool
}

// progressValues is what one step after another may wait for.
func (c counts) progressValues() []any {
	return []any{c.observed, c.total, c.updated, c.ready, c.available, c.updatedReady, c.current, c.update}
}

// countsOf reads them by the names that StatefulSets, CloneSets and what is shaped like them have, or by those of DaemonSets.
func countsOf(u *unstructured.Unstructured) counts {
	status := func(names ...string) int64 { return numberField(u, "status", names...) }
	c := counts{
		replicas: 1, total: status("replicas", "currentNumberScheduled"), updated: status("updatedReplicas", "updatedNumberScheduled"),
		ready: status("readyReplicas", "numberReady"), available: status("availableReplicas", "numberAvailable"), updatedReady: status("updatedReadyReplicas"),
		observed: status("observedGeneration") >= u.GetGeneration(),
	}
	if wanted, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); set {
		c.replicas = wanted
	} else if wanted, set, _ := unstructured.NestedInt64(u.Object, "status", "desiredNumberScheduled"); set {
		c.replicas = wanted
	}
	c.current, _, _ = unstructured.NestedString(u.Object, "status", "currentRevision")
	c.update, _, _ = unstructured.NestedString(u.Object, "status", "updateRevision")
	c.keptByPartition = min(scaledAmount(u, "partition", c.replicas, true, intstr.FromInt32(0)), c.replicas)
	c.maxUnavailable = max(1, scaledAmount(u, "maxUnavailable", c.replicas, false, usualUnavailable(u)))
	return c
}

// usualUnavailable is how many pods may be missing where the workload does not say.
func usualUnavailable(u *unstructured.Unstructured) intstr.IntOrString {
	if u.GetKind() == "CloneSet" {
		return intstr.FromString("20%")
	}
	return intstr.FromInt32(1)
}

// scaledAmount is a number of pods in the update strategy, or a share of the replicas. Some kinds have it in rollingUpdate and some beside it.
func scaledAmount(u *unstructured.Unstructured, name string, of int64, up bool, usual intstr.IntOrString) int64 {
	value := nestedField(u, "spec", "updateStrategy", "rollingUpdate", name)
	if value == nil {
		value = nestedField(u, "spec", "updateStrategy", name)
	}
	switch v := value.(type) {
	case int64:
		return v
	case string:
		usual = intstr.FromString(v)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&usual, int(of), up)
	if err != nil {
		return 0
	}
	return int64(n)
}

// numberField is the first field of the names that is set, 0 if none is.
func numberField(u *unstructured.Unstructured, under string, names ...string) int64 {
	for _, name := range names {
		if n, set, _ := unstructured.NestedInt64(u.Object, under, name); set {
			return n
		}
	}
	return 0
}

// nestedField is a field as it is read, nil where there is none.
func nestedField(u *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return value
}
