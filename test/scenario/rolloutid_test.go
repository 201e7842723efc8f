package scenario

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// ids writes a rollout-id as label and as annotation, except where it is "-", together with a template.
func (d *demo) ids(t *testing.T, label, annotation, template string) {
	t.Helper()
	var metadata []string
	for place, value := range map[string]string{"labels": label, "annotations": annotation} {
		if value != "-" {
			metadata = append(metadata, fmt.Sprintf(`%q:{%q:%q}`, place, api.LabelRolloutID, value))
		}
	}
	d.release(t, strings.Replace(template, "{", `{"metadata":{`+strings.Join(metadata, ",")+"},", 1))
}

// A rollout-id names the release in the status and on the pods, as label or as annotation; the annotation wins. Only
// the annotation of the stable version lets another template through.
func TestTheStatusAndThePodsGoByOneRolloutID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels, annotations [2]string // before and with the new version
		want                string    // "" for the revision
		native              bool
	}{
		"a label":                              {labels: [2]string{"r1", "r2"}, annotations: [2]string{"-", "-"}, want: "r2"},
		"a label that stays":                   {labels: [2]string{"r1", "r1"}, annotations: [2]string{"-", "-"}, want: "r1"},
		"an annotation":                        {labels: [2]string{"-", "-"}, annotations: [2]string{"r1", "r2"}, want: "r2"},
		"an annotation that stays":             {labels: [2]string{"-", "-"}, annotations: [2]string{"r1", "r1"}, want: "r1", native: true},
		"both and the annotation changes":      {labels: [2]string{"a", "a"}, annotations: [2]string{"r1", "r2"}, want: "r2"},
		"both and only the label changes":      {labels: [2]string{"a", "b"}, annotations: [2]string{"r1", "r1"}, want: "r1", native: true},
		"an annotation with nothing in it":     {labels: [2]string{"a", "a"}, annotations: [2]string{"", ""}},
		"an annotation that is no label value": {labels: [2]string{"-", "-"}, annotations: [2]string{"r1", "r 2"}, want: "r 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t))
			d.adoptAs(t, c.labels[0], c.annotations[0])
			d.ids(t, c.labels[1], c.annotations[1], version("new"))
			if c.native {
				d.awaitSets(t, map[string]int32{"new": 3})
				d.w.Available(t, d.ns, "workload-demo")
				d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && idOf(r) == c.want })
				firstEvent(t, d.w, d.ns, "involvedObject.kind=Rollout,involvedObject.name=rollouts-demo,reason=SameRolloutID")
				return
			}
			r := d.await(t, world.PausedAt(1))
			want := c.want
			if want == "" {
				want = r.Status.Sluice.CanaryRevision
			}
			if got := idOf(r); got != want {
				t.Errorf("the status says %q, want %q", got, want)
			}
			if strings.Contains(want, " ") {
				want = r.Status.Sluice.CanaryRevision
			}
			pods := d.w.Do(t, "-n", d.ns, "get", "pods", "-l", api.LabelRolloutID, "-o", `jsonpath={.items[*].metadata.labels.rollouts\.kruise\.io/rollout-id}`)
			if pods != want {
				t.Errorf("the pods say %q, want %q", pods, want)
			}
		})
	}
}

// adoptAs makes the executor adopt the workload again, as a version with these rollout-ids.
func (d *demo) adoptAs(t *testing.T, label, annotation string) {
	t.Helper()
	disable := func(disabled bool) {
		t.Helper()
		if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", fmt.Sprintf(`{"spec":{"disabled":%t}}`, disabled)); err != nil {
			t.Fatal(err)
		}
	}
	disable(true)
	d.w.AwaitObject(t, d.ns, "deployment", "workload-demo", "to be let go", func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()[api.AnnotationRollout] == ""
	})
	d.ids(t, label, annotation, version("base"))
	disable(false)
	awaitAdopted(t, d.w, d.ns, "workload-demo", "rollouts-demo")
	d.await(t, world.Healthy)
}

func idOf(r *api.Rollout) string { return r.Status.Common().ObservedRolloutID }
