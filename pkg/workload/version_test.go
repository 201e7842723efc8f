package workload_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload"
)

func TestTheVersionOfAWorkloadIsItsAnnotationOrItsRolloutID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations, labels map[string]string
		want                string
	}{
		"without a name it is unknown":          {nil, nil, ""},
		"the annotation names it":               {map[string]string{api.AnnotationVersion: "v2"}, nil, "v2"},
		"a rollout-id in an annotation does":    {map[string]string{api.AnnotationRolloutID: "r2"}, nil, "r2"},
		"a rollout-id in a label does":          {nil, map[string]string{api.LabelRolloutID: "r2"}, "r2"},
		"the annotation wins over a rollout-id": {map[string]string{api.AnnotationVersion: "v2", api.AnnotationRolloutID: "r2"}, map[string]string{api.LabelRolloutID: "r3"}, "v2"},
		"an empty annotation names nothing":     {map[string]string{api.AnnotationVersion: "", api.AnnotationRolloutID: "r2"}, nil, "r2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mergeMaps()
			d.Annotations, d.Labels = c.annotations, c.labels
			if got := workload.ObserveDeployment(d, nil, "web").Version.Version; got != c.want {
				t.Errorf("the version of a Deployment is %q, want %q", got, c.want)
			}
			for kind, shape := range shapes() {
				o := shape.object(notes(c.annotations), tags(c.labels))
				if got := o.ObserveWorkload("web").Version.Version; got != c.want {
					t.Errorf("the version of %s is %q, want %q", kind, got, c.want)
				}
			}
		})
	}
}

func notes(all map[string]string) change {
	return func(u *unstructured.Unstructured) {
		for key, value := range all {
			note(key, value)(u)
		}
	}
}

func tags(all map[string]string) change {
	return func(u *unstructured.Unstructured) {
		for key, value := range all {
			label(key, value)(u)
		}
	}
}

func TestTheImagesOfInitContainersBelongToTheVersion(t *testing.T) {
	t.Parallel()
	d := mergeMaps(func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "mirror.example.com/setup:4"}}
	})
	want := api.FleetVersion{
		Images:   api.FleetImagesDigest(map[string]string{"setup": "setup:4", "web": "web:1"}),
		Revision: workload.TemplateRevision(d.Spec.Template),
	}
	if diff := cmp.Diff(want, workload.ObserveDeployment(d, nil, "web").Version); diff != "" {
		t.Errorf("the version of a Deployment differs (-want +got):\n%s", diff)
	}
	for kind, shape := range shapes() {
		o := shape.object(set(`[{name: setup, image: "mirror.example.com/setup:4"}]`, "spec", "template", "spec", "initContainers"))
		if diff := cmp.Diff(want, o.ObserveWorkload("web").Version); diff != "" {
			t.Errorf("the version of %s differs (-want +got):\n%s", kind, diff)
		}
	}
}

func TestHowManyRevisionsWithoutPodsAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit *int32
		text  string
		want  int32
	}{
		"ten if the workload says nothing": {nil, "", 10},
		"as many as the workload says":     {new(int32(3)), "3", 3},
		"none if the workload says 0":      {new(int32(0)), "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mergeMaps(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = c.limit })
			if got := workload.ObserveDeployment(d, nil, "web").HistoryLimit; got != c.want {
				t.Errorf("of a Deployment %d are kept, want %d", got, c.want)
			}
			for kind, shape := range shapes() {
				o := shape.object()
				if c.limit != nil {
					set(c.text, "spec", "revisionHistoryLimit")(o.Live)
				}
				if got := o.ObserveWorkload("web").HistoryLimit; got != c.want {
					t.Errorf("of %s %d are kept, want %d", kind, got, c.want)
				}
			}
		})
	}
}

func TestWhoRestoresATemplateOfAFleetRestoresTheNameOfItsVersion(t *testing.T) {
	t.Parallel()
	version, id, idLabel := func(v string) func(*appsv1.Deployment) { return annotated(api.AnnotationVersion, v) },
		func(v string) func(*appsv1.Deployment) { return annotated(api.AnnotationRolloutID, v) },
		func(v string) func(*appsv1.Deployment) { return labelled(api.LabelRolloutID, v) }
	type marks = map[string]map[string]string
	for name, c := range map[string]struct {
		d       *appsv1.Deployment
		version string
		want    marks
	}{
		"the annotation gets the name": {
			mergeMaps(version("v2"), annotated("mine", "x")), "v1", marks{"annotations": {api.AnnotationVersion: "v1", "mine": "x"}}},
		"the annotation of a version without a name goes": {
			mergeMaps(version("v2"), annotated("mine", "x")), "", marks{"annotations": {"mine": "x"}}},
		"the annotation stays if it has the name already": {
			mergeMaps(version("v1")), "v1", marks{"annotations": {api.AnnotationVersion: "v1"}}},
		"a rollout-id in an annotation gets the name": {
			mergeMaps(id("v2")), "v1", marks{"annotations": {api.AnnotationRolloutID: "v1"}}},
		"a rollout-id in a label gets the name": {
			mergeMaps(idLabel("v2")), "v1", marks{"labels": {api.LabelRolloutID: "v1"}}},
		"a label cannot have every name": {
			mergeMaps(idLabel("v2")), "v1+b7", marks{}},
		"a rollout-id in both places gets the name": {
			mergeMaps(id("v2"), idLabel("v2")), "v1", marks{"annotations": {api.AnnotationRolloutID: "v1"}, "labels": {api.LabelRolloutID: "v1"}}},
		"a label that is not the rollout-id stays": {
			mergeMaps(id("v2"), idLabel("web")), "v1", marks{"annotations": {api.AnnotationRolloutID: "v1"}, "labels": {api.LabelRolloutID: "web"}}},
		"the rollout-id of a version without a name goes": {
			mergeMaps(id("v2"), idLabel("v2")), "", marks{}},
		"a rollout-id in an annotation that has the name already goes": {
			mergeMaps(id("v1")), "v1", marks{}},
		"a rollout-id in both places that has the name already goes": {
			mergeMaps(id("v1"), idLabel("v1")), "v1", marks{}},
		"the noted rollout-id of the stable version does not count": {
			mergeMaps(id("v2"), annotated(api.AnnotationStableRolloutID, "r1")), "v1",
			marks{"annotations": {api.AnnotationRolloutID: "v1", api.AnnotationStableRolloutID: "r1"}}},
		"the annotation gets the name, and a rollout-id in an annotation goes": {
			mergeMaps(version("v2"), id("r2")), "v1", marks{"annotations": {api.AnnotationVersion: "v1"}}},
		"the annotation gets the name, and a rollout-id in a label goes": {
			mergeMaps(version("v2"), idLabel("r2")), "v1", marks{"annotations": {api.AnnotationVersion: "v1"}}},
		"the annotation and a rollout-id of a version without a name go": {
			mergeMaps(version("v2"), id("r2"), idLabel("r2")), "", marks{}},
		"a workload that names nothing gets no name": {
			mergeMaps(annotated("mine", "x")), "v1", marks{"annotations": {"mine": "x"}}},
		"a workload without annotations gets none": {
			mergeMaps(), "v1", marks{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, restoredMarks(t, c.d, &c.version)); diff != "" {
				t.Errorf("the marks differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachKindRestoresTheNameOfItsVersion(t *testing.T) {
	t.Parallel()
	for kind, shape := range shapes() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := shape.object(image("web:2"), note(api.AnnotationVersion, "v2"), label(api.LabelRolloutID, "r2"))
			o.Revisions = []*appsv1.ControllerRevision{revisionOf("web-a", 1, "web:1")}
			hash := o.ObserveWorkload("web").Revisions[0].Hash
			change, err := o.RestoreTemplate(hash, new("v1"))
			if err != nil {
				t.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(change)
			if err != nil {
				t.Fatal(err)
			}
			body, err := o.Live.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if body, err = patch.Apply(body); err != nil {
				t.Fatal(err)
			}
			o.Live = &unstructured.Unstructured{}
			if err := json.Unmarshal(body, o.Live); err != nil {
				t.Fatal(err)
			}
			want := api.FleetVersion{Version: "v1", Images: api.FleetImagesDigest(map[string]string{"web": "web:1"}), Revision: typed("web:1")}
			if w := o.ObserveWorkload("web"); w.RolloutID != "" || !cmp.Equal(want, w.Version) {
				t.Errorf("it has the rollout-id %q, and the version differs (-want +got):\n%s", w.RolloutID, cmp.Diff(want, w.Version))
			}
		})
	}
}
