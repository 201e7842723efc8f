package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// The images of a permit come in one patch with the hold. Everything else of the containers stays as it is, also a field that this version does not know.
func TestImagesAreSetTogetherWithTheHold(t *testing.T) {
	t.Parallel()
	containers := func(image string) []any {
		return []any{
			map[string]any{"name": "app", "image": image, "future": "kept"},
			map[string]any{"name": "proxy", "image": "proxy:1"},
		}
	}
	for kind, shape := range shapes() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := shape.object(func(u *unstructured.Unstructured) {
				template := map[string]any{"containers": containers("app:1"), "initContainers": []any{map[string]any{"name": "init", "image": "init:1"}}}
				if err := unstructured.SetNestedMap(u.Object, template, "spec", "template", "spec"); err != nil {
					t.Fatal(err)
				}
			})
			patch, err := o.HoldWorkload("web").SetImages(o.Live, rollout.SetImages{
				Images: map[string]string{"app": "app:2", "proxy": "proxy:1", "init": "init:2"}, Version: "v2", Permit: api.PermitNumber{Epoch: 7, Seq: 3},
			})
			if err != nil {
				t.Fatal(err)
			}
			after := merged(t, o.Live, patch)
			pod, _, _ := unstructured.NestedMap(after.Object, "spec", "template", "spec")
			want := map[string]any{"containers": containers("app:2"), "initContainers": []any{map[string]any{"name": "init", "image": "init:2"}}}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("the pod differs (-want +got):\n%s", diff)
			}
			o.Live = after
			w := o.ObserveWorkload("web")
			if !w.Held || w.Version.Version != "v2" || w.Delivered != (api.PermitNumber{Epoch: 7, Seq: 3}) {
				t.Errorf("held is %v, the version %q, and the permit of the images %v", w.Held, w.Version.Version, w.Delivered)
			}
		})
	}
}

// The name of a version stays where the owner has it.
func TestWhereTheNameOfADeliveredVersionGoes(t *testing.T) {
	t.Parallel()
	type marks = map[string]string
	for name, c := range map[string]struct{ annotations, labels, wantAnnotations, wantLabels marks }{
		"a workload without a name gets the annotation": {wantAnnotations: marks{api.AnnotationVersion: "v2"}},
		"the annotation":                        {annotations: marks{api.AnnotationVersion: "v1"}, wantAnnotations: marks{api.AnnotationVersion: "v2"}},
		"a rollout-id in an annotation":         {annotations: marks{api.AnnotationRolloutID: "v1"}, wantAnnotations: marks{api.AnnotationRolloutID: "v2"}},
		"a rollout-id in a label":               {labels: marks{api.LabelRolloutID: "v1"}, wantLabels: marks{api.LabelRolloutID: "v2"}},
		"the annotation, which counts for more": {annotations: marks{api.AnnotationVersion: "v1", api.AnnotationRolloutID: "r1"}, wantAnnotations: marks{api.AnnotationVersion: "v2", api.AnnotationRolloutID: "r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
			live.SetAnnotations(c.annotations)
			live.SetLabels(c.labels)
			patch, err := workload.Patch{}.SetImages(live, rollout.SetImages{Version: "v2", Permit: api.PermitNumber{Epoch: 1, Seq: 1}})
			if err != nil {
				t.Fatal(err)
			}
			after := merged(t, live, patch)
			annotations := after.GetAnnotations()
			delete(annotations, api.AnnotationDelivered)
			if len(annotations) == 0 {
				annotations = nil
			}
			if diff := cmp.Diff([]marks{c.wantAnnotations, c.wantLabels}, []marks{annotations, after.GetLabels()}); diff != "" {
				t.Errorf("annotations and labels differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheManagerThatChangedATemplateLast(t *testing.T) {
	t.Parallel()
	entry := func(manager string, second int, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(int64(second), 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const template, replicas = `{"f:spec":{"f:template":{"f:spec":{}}}}`, `{"f:spec":{"f:replicas":{}}}`
	status := entry("deployment-controller", 9, template)
	status.Subresource = "status"
	entries := []metav1.ManagedFieldsEntry{
		entry("kubectl", 1, template), entry("argocd-controller", 3, template), entry("autoscaler", 8, replicas), entry(api.FieldManager, 7, template), status,
	}
	d := mergeMaps()
	d.ManagedFields = entries
	if got := workload.ObserveDeployment(d, nil, "web").TemplateManager; got != "argocd-controller" {
		t.Errorf("the manager is %q, want argocd-controller", got)
	}
	for range 2 { // an informer may trim an object twice
		d.ManagedFields = api.TemplateManagers(d.ManagedFields)
	}
	if n := len(d.ManagedFields); n != 2 || d.ManagedFields[0].FieldsV1 != nil {
		t.Errorf("%d entries are kept, want 2 without fields: %v", n, d.ManagedFields)
	}
	if got := workload.ObserveDeployment(d, nil, "web").TemplateManager; got != "argocd-controller" {
		t.Errorf("the manager in the cache is %q, want argocd-controller", got)
	}
}
