package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWhatIsKeptOfWorkloads(t *testing.T) {
	t.Parallel()
	metadata := map[string]any{"name": "web", "namespace": "shop", "uid": "w", "resourceVersion": "5"}
	unmarked := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
		"spec":   map[string]any{"replicas": int64(4)},
		"status": map[string]any{"replicas": int64(4), "conditions": []any{map[string]any{"type": "Odd"}}},
	}}
	marked := unmarked.DeepCopy()
	marked.SetLabels(map[string]string{"rollouts.kruise.io/workload-type": "statefulset"})
	want := marked.DeepCopy()
	unstructured.RemoveNestedField(want.Object, "status", "conditions")
	for range 2 { // a second time does nothing
		trimWorkload(unmarked)
		trimWorkload(marked)
		if diff := cmp.Diff(map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}, unmarked.Object); diff != "" {
			t.Errorf("one that is not ours (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, marked); diff != "" {
			t.Errorf("one that is ours (-want +got):\n%s", diff)
		}
	}
}
