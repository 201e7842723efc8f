package revision_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
)

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}}
}

// web returns a Deployment whose template has image, and whose earlier templates had the other images.
func web(t *testing.T, image string, had ...string) revision.Workload {
	t.Helper()
	w := revision.Workload{Object: deployment(image)}
	for i, image := range had {
		r := revision.Revision{Number: int64(i + 1), Name: "web-" + image, Hash: image, Template: template(image)}
		r.Digest = revision.Workload{Object: deployment(image)}.Digest()
		w.Revisions = append(w.Revisions, r)
	}
	return w
}

func deployment(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Deployment", "metadata": map[string]any{"name": "web", "resourceVersion": "7"}, "spec": map[string]any{"template": template(image)},
	}}
}

func TestWhichRevisionIsGivenAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		workload revision.Workload
		number   int64
		stable   string
		want     int64
		same     bool
		refused  string
	}{
		"the one before the present one":                     {workload: web(t, "v3", "v1", "v2", "v3"), want: 2},
		"the latest, where the present one has run nowhere":  {workload: web(t, "v3", "v1", "v2"), want: 2},
		"the stable one, though a later one has run":         {workload: web(t, "v3", "v1", "v2"), stable: "v1", want: 1},
		"the stable one by the name of its object":           {workload: web(t, "v3", "v1", "v2"), stable: "web-v1", want: 1},
		"the one that was asked for":                         {workload: web(t, "v3", "v1", "v2", "v3"), number: 1, want: 1},
		"the one that was asked for, and not the stable one": {workload: web(t, "v3", "v1", "v2"), number: 2, stable: "v1", want: 2},
		"none that is not kept": {workload: web(t, "v3", "v1", "v2"), number: 7,
			refused: "Deployment web has no revision 7; choose one with --to-revision: 1, 2"},
		"none, where nothing is kept": {workload: web(t, "v3"), number: 7,
			refused: "Deployment web has no revision 7; no such revision exists; apply the manifest of the version that should run"},
		"no other than the stable one": {workload: web(t, "v3", "v1", "v2"), stable: "v0",
			refused: "the stable version v0 of Deployment web is not kept any more; choose one with --to-revision: 1, 2"},
		"not the present one": {workload: web(t, "v2", "v1", "v2"), number: 2, same: true,
			refused: "there is nothing to undo: Deployment web has the template of revision 2 already"},
		"not the stable one, once it is the present one": {workload: web(t, "v1", "v1", "v2"), stable: "v1", same: true,
			refused: "has the template of revision 1 already"},
		"none, where there was no other": {workload: web(t, "v1", "v1"), same: true, refused: "Deployment web has no older revision"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.workload.ChooseRevision(test.number, test.stable)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || errors.Is(err, revision.ErrSame) != test.same {
					t.Errorf("got %v, want %q", err, test.refused)
				}
				return
			}
			if err != nil || got.Number != test.want {
				t.Errorf("got revision %d, %v", got.Number, err)
			}
		})
	}
}

func TestThePatchChangesTheTemplateItsIDAndItsCauseOnly(t *testing.T) {
	t.Parallel()
	const rest = `{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/template","value":{"spec":{"containers":[{"image":"v1","name":"app"}]}}}`
	annotated := func(annotations map[string]string) revision.Workload {
		w := web(t, "v2")
		w.Object.SetAnnotations(annotations)
		return w
	}
	old := revision.Revision{Template: template("v1")}
	known := revision.Revision{Template: template("v1"), Cause: "as it was"}
	for name, test := range map[string]struct {
		workload revision.Workload
		to       revision.Revision
		want     string
	}{
		"no cause was ever noted":      {web(t, "v2"), old, "[" + rest + "]"},
		"a cause is noted again":       {annotated(map[string]string{"kubernetes.io/change-cause": "v2"}), known, "[" + rest + `,{"op":"add","path":"/metadata/annotations/kubernetes.io~1change-cause","value":"as it was"}]`},
		"the cause of the change goes": {annotated(map[string]string{"kubernetes.io/change-cause": "v2", "mine": "stays"}), old, "[" + rest + `,{"op":"remove","path":"/metadata/annotations/kubernetes.io~1change-cause"}]`},
		"the rollout-id is the one that it had": {annotated(map[string]string{"rollouts.kruise.io/rollout-id": "r2"}), revision.Revision{Template: template("v1"), RolloutID: "r1"},
			"[" + rest + `,{"op":"replace","path":"/metadata/annotations/rollouts.kruise.io~1rollout-id","value":"r1"}]`},
		"the rollout-id of the change goes": {annotated(map[string]string{"rollouts.kruise.io/rollout-id": "r2"}), old,
			"[" + rest + `,{"op":"remove","path":"/metadata/annotations/rollouts.kruise.io~1rollout-id"}]`},
		"a rollout-id that both had goes": {annotated(map[string]string{"rollouts.kruise.io/rollout-id": "web"}), revision.Revision{Template: template("v1"), RolloutID: "web"},
			"[" + rest + `,{"op":"remove","path":"/metadata/annotations/rollouts.kruise.io~1rollout-id"}]`},
		"there were no annotations till now": {web(t, "v2"), known, "[" + rest + `,{"op":"add","path":"/metadata/annotations","value":{"kubernetes.io/change-cause":"as it was"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch, err := test.workload.TemplatePatch(test.to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(patch)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
