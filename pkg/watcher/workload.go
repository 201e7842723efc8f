package watcher

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// workloadFacts are the facts of a workload other than a Deployment, like deploymentFacts: the owner's wishes, the controller's progress while a
// release is under way, and otherwise whether the controller is done.
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

// countsOf reads them by the names that the table of kinds has.
func countsOf(u *unstructured.Unstructured) counts {
	kind := kinds.FindOrShape(u.GroupVersionKind().GroupKind())
	status := func(name string) int64 { n, _, _ := unstructured.NestedInt64(u.Object, "status", name); return n }
	c := counts{
		replicas: 1, total: status(kind.Status.Total), updated: status(kind.Status.Updated), ready: status(kind.Status.Ready),
		available: status(kind.Status.Available), updatedReady: status(kind.Status.UpdatedReady),
		observed: status("observedGeneration") >= u.GetGeneration(),
	}
	if wanted, set, _ := unstructured.NestedInt64(u.Object, kind.WantedPath()...); set {
		c.replicas = wanted
	}
	c.current, _, _ = unstructured.NestedString(u.Object, "status", "currentRevision")
	c.update, _, _ = unstructured.NestedString(u.Object, "status", "updateRevision")
	if partition, is := kind.Field(kinds.FieldPartition); is {
		c.keptByPartition = min(scaledAmount(u, partition, c.replicas, true), c.replicas)
	}
	c.maxUnavailable = max(1, scaledAmount(u, kind.Unavailable, c.replicas, false))
	return c
}

// scaledAmount is the number of pods that a field says, or a share of the replicas. A value that is neither counts as the default.
func scaledAmount(u *unstructured.Unstructured, field kinds.Field, of int64, up bool) int64 {
	amount := intstr.Parse(field.Default)
	switch v := nestedField(u, field.ObjectPath()...).(type) {
	case int64:
		return v
	case string:
		amount = intstr.FromString(v)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&amount, int(of), up)
	if err != nil {
		return 0
	}
	return int64(n)
}

// nestedField is the value of a field, nil if it is absent.
func nestedField(u *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return value
}
