package workload_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func TestTheIDOfTheStableVersionIsNoted(t *testing.T) {
	t.Parallel()
	adopt := func(d *appsv1.Deployment, known rollout.StableID) workload.Patch {
		return workload.AdoptDeployment(d, "web", known)
	}
	id, stableID := func(id string) func(*appsv1.Deployment) { return annotated(api.AnnotationRolloutID, id) },
		func(id string) func(*appsv1.Deployment) { return annotated(api.AnnotationStableRolloutID, id) }
	for name, c := range map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment, rollout.StableID) workload.Patch
		known rollout.StableID
		to    *appsv1.Deployment
	}{
		"adopted at rest":                      {mergeMaps(id("r1")), adopt, rollout.StableIDPresent, mergeMaps(adopted, id("r1"), stableID("r1"))},
		"adopted at rest with a label":         {mergeMaps(labelled(api.LabelRolloutID, "r1")), adopt, rollout.StableIDPresent, mergeMaps(adopted, labelled(api.LabelRolloutID, "r1"), stableID("r1"))},
		"adopted at rest without an id":        {mergeMaps(stableID("another cluster's")), adopt, rollout.StableIDPresent, mergeMaps(adopted)},
		"adopted while another version comes":  {mergeMaps(id("r2"), stableID("another cluster's")), adopt, rollout.StableIDUnknown, mergeMaps(adopted, id("r2"))},
		"a release has succeeded":              {mergeMaps(adopted, id("r2"), stableID("r1"), inProgress, paused), workload.ResumeDeployment, rollout.StableIDPresent, mergeMaps(adopted, id("r2"), stableID("r2"))},
		"one without an id has succeeded":      {mergeMaps(adopted, stableID("r1"), inProgress, paused), workload.ResumeDeployment, rollout.StableIDPresent, mergeMaps(adopted)},
		"a release was taken back by template": {mergeMaps(adopted, id("r2"), stableID("r1"), inProgress, paused), workload.ResumeDeployment, rollout.StableIDKept, mergeMaps(adopted, id("r2"), stableID("r1"))},
		"disowned":                             {mergeMaps(adopted, id("r1"), stableID("r1")), func(d *appsv1.Deployment, _ rollout.StableID) workload.Patch { return workload.DisownDeployment(d) }, rollout.StableIDKept, mergeMaps(id("r1"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.to, patched(t, c.from, c.patch(c.from, c.known))); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachKindNotesTheIDOfTheStableVersion(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := shape.object(note(api.AnnotationRolloutID, "r1"))
			note := func(o workload.Object) string { return o.Live.GetAnnotations()[api.AnnotationStableRolloutID] }
			for _, step := range []struct {
				id    string
				patch func() workload.Patch
				want  string
			}{
				{"r1", func() workload.Patch { return o.AdoptWorkload("web", rollout.StableIDPresent) }, "r1"},
				{"r2", func() workload.Patch { return o.HoldWorkload("web") }, "r1"},
				{"r2", func() workload.Patch { return o.ResumeWorkload(rollout.StableIDKept) }, "r1"},
				{"r2", func() workload.Patch { return o.ResumeWorkload(rollout.StableIDPresent) }, "r2"},
				{"r3", func() workload.Patch { return o.DisownWorkload() }, ""},
			} {
				annotations := o.Live.GetAnnotations()
				annotations[api.AnnotationRolloutID] = step.id
				o.Live.SetAnnotations(annotations)
				if o.Live = merged(t, o.Live, step.patch()); note(o) != step.want {
					t.Errorf("under %s the id of the stable version is %q, want %q", step.id, note(o), step.want)
				}
				if same := o.ObserveWorkload("web").IDLetsThrough; same != (step.want == step.id) {
					t.Errorf("a change under %s is no release: %t", step.id, same)
				}
			}
		})
	}
}

func TestWhoRestoresATemplateRestoresItsIDWithIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    *appsv1.Deployment
		want map[string]map[string]string
	}{
		"there is none":           {mergeMaps(annotated("mine", "x")), map[string]map[string]string{"annotations": {"mine": "x"}}},
		"the stable one had none": {mergeMaps(annotated(api.AnnotationRolloutID, "r2"), annotated("mine", "x")), map[string]map[string]string{"annotations": {"mine": "x"}}},
		"an annotation": {mergeMaps(annotated(api.AnnotationRolloutID, "r2"), annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"annotations": {api.AnnotationRolloutID: "r1", api.AnnotationStableRolloutID: "r1"}}},
		"a label": {mergeMaps(labelled(api.LabelRolloutID, "r2"), annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"labels": {api.LabelRolloutID: "r1"}, "annotations": {api.AnnotationStableRolloutID: "r1"}}},
		"both": {mergeMaps(labelled(api.LabelRolloutID, "r2"), annotated(api.AnnotationRolloutID, "r2"), annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"labels": {api.LabelRolloutID: "r1"}, "annotations": {api.AnnotationRolloutID: "r1", api.AnnotationStableRolloutID: "r1"}}},
		"a label that names something else": {mergeMaps(labelled(api.LabelRolloutID, "web"), annotated(api.AnnotationRolloutID, "r2"), annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"labels": {api.LabelRolloutID: "web"}, "annotations": {api.AnnotationRolloutID: "r1", api.AnnotationStableRolloutID: "r1"}}},
		"the id of the stable version under another template": {mergeMaps(annotated(api.AnnotationRolloutID, "r1"), annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"annotations": {api.AnnotationStableRolloutID: "r1"}}},
		"one that the newer version does not have": {mergeMaps(annotated(api.AnnotationStableRolloutID, "r1")),
			map[string]map[string]string{"annotations": {api.AnnotationStableRolloutID: "r1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, restoredMarks(t, c.d, nil)); diff != "" {
				t.Errorf("the marks differ (-want +got):\n%s", diff)
			}
		})
	}
}

// restoredMarks returns the annotations and labels of a Deployment that gets the template of an older ReplicaSet again. A field without any is absent.
func restoredMarks(t *testing.T, d *appsv1.Deployment, version *string) map[string]map[string]string {
	t.Helper()
	set := &appsv1.ReplicaSet{}
	set.Spec.Template.Spec.Hostname = "v1"
	change, err := workload.RestoreTemplate(d, set, version)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(change)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if body, err = patch.Apply(body); err != nil {
		t.Fatal(err)
	}
	var got appsv1.Deployment
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Template.Spec.Hostname != "v1" {
		t.Errorf("the Deployment has the template %q", got.Spec.Template.Spec.Hostname)
	}
	marks := map[string]map[string]string{}
	for field, values := range map[string]map[string]string{"annotations": got.Annotations, "labels": got.Labels} {
		if len(values) > 0 {
			marks[field] = values
		}
	}
	return marks
}
