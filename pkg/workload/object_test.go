package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
)

func TestNewPodsAreThoseOfTheTemplate(t *testing.T) {
	t.Parallel()
	o := statefulSet.object(image("web:2"))
	o.Revisions = []*appsv1.ControllerRevision{revisionOf("web-b", 2, "web:2"), revisionOf("web-a", 1, "web:1")}
	o.Pods = []*corev1.Pod{
		podOf("web-0", "web-a"), podOf("web-1", "web-b"), podOf("web-2", "web-b", unready, released), podOf("web-3", "web-b", going),
		podOf("web-4", "web-b", foreign), podOf("web-5", "web-b", orphan), podOf("web-6", "b"),
	}
	if diff := cmp.Diff([]string{"web-1", "web-2"}, names(o.NewPods())); diff != "" {
		t.Errorf("the new pods differ (-want +got):\n%s", diff)
	}
	o.Pods[1].Labels[api.LabelNoNeedUpdate] = "a rollback"
	for id, want := range map[string][]string{"a rollback": {"web-2"}, "another release": {"web-1", "web-2"}} {
		if diff := cmp.Diff(want, names(o.UnlabelledKeptPods(id))); diff != "" {
			t.Errorf("the pods that %q does not spare differ (-want +got):\n%s", id, diff)
		}
	}
	if len(o.Pods) != 7 || o.Pods[0].Name != "web-0" || o.Pods[6].Name != "web-6" {
		t.Errorf("the pods that were looked at have changed: %v", names(o.Pods))
	}
	if got := statefulSet.object().NewPods(); got != nil {
		t.Errorf("without pods the new ones are %v", names(got))
	}
}

func TestTheTemplateOfAnOlderRevisionIsGivenBackWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape shape
		hash  string
	}{
		"a StatefulSet by the name of the revision": {statefulSet, "web-a"},
		"a CloneSet by the end of it":               {cloneSet, "a"},
		"a DaemonSet by the end of it":              {daemonSet, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.shape.object(image("web:2"), set("{new: too}", "spec", "template", "metadata", "annotations"))
			stranger := revisionOf("web-a", 1, "web:0")
			stranger.OwnerReferences[0].UID = "another"
			o.Revisions = []*appsv1.ControllerRevision{stranger, revisionOf("web-a", 1, "web:1"), revisionOf("web-b", 2, "web:2")}
			change, err := o.RestoreTemplate(c.hash, nil)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(change)
			if err != nil {
				t.Fatal(err)
			}
			body, err := patch.Apply([]byte(`{"metadata": {"resourceVersion": "6"}, "spec": {"replicas": 3, "template": {"old": 1}}}`))
			if err != nil {
				t.Fatal(err)
			}
			want := `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"web"}},` +
				`"ours":{"level":12345678901234567890},"spec":{"containers":[{"name":"web","image":"web:1","resources":{}}]}}}}`
			if diff := cmp.Diff(want, string(body)); diff != "" {
				t.Errorf("the workload differs (-want +got):\n%s", diff)
			}
			if _, err := o.RestoreTemplate("c", nil); err == nil || err.Error() != c.shape.kind+" web has no revision c" {
				t.Errorf("of a revision that is gone the error is %v", err)
			}
		})
	}
}

func TestARevisionThatCannotBeReadIsNotGivenBack(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{"no JSON": "{", "no template": "{}", "a template that is none": `{"spec":{"template":[]}}`} {
		o := statefulSet.object()
		o.Revisions = []*appsv1.ControllerRevision{revisionOf("web-a", 1, "web:1")}
		o.Revisions[0].Data.Raw = []byte(raw)
		if patch, err := o.RestoreTemplate("web-a", nil); err == nil {
			t.Errorf("%s: the patch is %s", name, patch)
		}
	}
}
