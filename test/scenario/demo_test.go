package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// demo is the Istio walkthrough in its own namespace, with a grace period of one second and the steps of the test.
type demo struct {
	w       *world.World
	ns      string
	route   *unstructured.Unstructured // the VirtualService before any release
	stable  *unstructured.Unstructured // the Service before any release
	beside  []string                   // additional Services of its owner
	changed time.Time                  // the time at which a test changed the stable Service
}

// shortGrace returns the walkthrough's Rollout with a grace period that tests can afford.
func shortGrace(t *testing.T) string {
	return strings.Replace(world.Seed(t, "istio-walkthrough/rollout.yaml"), "- service: service-demo\n", "- service: service-demo\n        gracePeriodSeconds: 1\n", 1)
}

// withSteps replaces the steps of the walkthrough's Rollout, given in flow style, one to a line.
func withSteps(t *testing.T, steps ...string) string {
	text := shortGrace(t)
	head, tail := strings.Index(text, "      - replicas: 1"), strings.Index(text, "      trafficRoutings:")
	var list strings.Builder
	for _, step := range steps {
		fmt.Fprintf(&list, "      - %s\n", step)
	}
	return text[:head] + list.String() + text[tail:]
}

func aDemo(t *testing.T, w *world.World, manifests ...string) *demo {
	t.Helper()
	return aDemoIn(t, w, w.Namespace(t), manifests...)
}

func aDemoIn(t *testing.T, w *world.World, ns string, manifests ...string) *demo {
	t.Helper()
	d := &demo{w: w, ns: ns}
	if len(manifests) == 0 {
		manifests = []string{shortGrace(t)}
	}
	all := append([]string{world.Seed(t, "istio-walkthrough/workload.yaml"), world.Seed(t, "istio-walkthrough/virtualservice.yaml")}, manifests...)
	w.Apply(t, d.ns, strings.Join(all, "\n---\n"))
	w.Available(t, d.ns, "workload-demo")
	d.await(t, world.Healthy)
	awaitAdopted(t, w, d.ns, "workload-demo", "rollouts-demo")
	d.route = w.Get(t, d.ns, "virtualservice", "vs-demo")
	d.stable = w.Get(t, d.ns, "service", "service-demo")
	return d
}

// awaitAdopted waits until the next change of a workload will be held.
func awaitAdopted(t *testing.T, w *world.World, ns, workload, rollout string) {
	t.Helper()
	w.AwaitObject(t, ns, "deployment", workload, "to be adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == rollout
	})
}

func (d *demo) await(t *testing.T, goal world.Goal) *api.Rollout {
	t.Helper()
	return d.w.Await(t, d.ns, "rollouts-demo", goal)
}

// version returns the template of the workload with a value of its variable; annotations are for the pods.
func version(value string, annotations ...string) string {
	metadata := ""
	for i := 0; i < len(annotations); i += 2 {
		metadata = fmt.Sprintf(`"metadata":{"annotations":{%q:%q}},`, annotations[i], annotations[i+1])
	}
	return fmt.Sprintf(`{"spec":{"template":{%s"spec":{"containers":[{"name":"nginx","image":"nginx","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"version","value":%q}]}]}}}}`, metadata, value)
}

// release changes the template of the workload.
func (d *demo) release(t *testing.T, template string) {
	t.Helper()
	if err := d.w.Patch(t, d.ns, "deployment", "workload-demo", template); err != nil {
		t.Fatal(err)
	}
}

const approval = `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`

func (d *demo) status(t *testing.T, patch string) error {
	t.Helper()
	return d.w.Patch(t, d.ns, "rollout", "rollouts-demo", patch, "status")
}

func (d *demo) approve(t *testing.T) {
	t.Helper()
	if err := d.status(t, approval); err != nil {
		t.Fatal(err)
	}
}

// at brings a release to the pause of a step.
func (d *demo) at(t *testing.T, step int32) *api.Rollout {
	t.Helper()
	for n := int32(1); n < step; n++ {
		d.await(t, world.PausedAt(n))
		d.approve(t)
	}
	return d.await(t, world.PausedAt(step))
}

// finish approves the remaining steps of a release of three steps, from the pause of one of them.
func (d *demo) finish(t *testing.T, from int32) *api.Rollout {
	t.Helper()
	for n := from; n <= 3; n++ {
		d.await(t, world.PausedAt(n))
		d.approve(t)
	}
	return d.await(t, world.Healthy)
}

// wantRestored checks that route and Services are as before the release, and that no other object of Sluice is left.
func (d *demo) wantRestored(t *testing.T) {
	t.Helper()
	wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
	wantSame(t, d.stable, d.w.Get(t, d.ns, "service", "service-demo"))
	for kind, want := range map[string][]string{"deployment": {"workload-demo"}, "service": append([]string{"service-demo"}, d.beside...)} {
		list, err := d.w.Client(t, d.ns, kind).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range list.Items {
			got = append(got, u.GetName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("objects of kind %s left (-want +got):\n%s", kind, diff)
		}
	}
	workload := d.w.Get(t, d.ns, "deployment", "workload-demo")
	if paused, _, _ := unstructured.NestedBool(workload.Object, "spec", "paused"); paused {
		t.Error("the workload is still paused")
	}
	if marks := marksOf(workload.GetAnnotations(), api.AnnotationRollout); len(marks) > 0 {
		t.Errorf("the workload still has the annotations %v", marks)
	}
}

// wantForgotten checks that the workload has no trace of a Rollout either.
func (d *demo) wantForgotten(t *testing.T) {
	t.Helper()
	d.wantRestored(t)
	workload := d.w.Get(t, d.ns, "deployment", "workload-demo")
	if marks := append(marksOf(workload.GetAnnotations()), marksOf(workload.GetLabels())...); len(marks) > 0 {
		t.Errorf("the workload still has the marks %v", marks)
	}
	if f := workload.GetFinalizers(); len(f) > 0 {
		t.Errorf("the workload still has the finalizers %v", f)
	}
}

// marksOf returns the keys that belong to Sluice or OpenKruise.
func marksOf(m map[string]string, but ...string) []string {
	var list []string
	for key := range m {
		if (strings.Contains(key, "sluice.dev/") || strings.Contains(key, "kruise.io/")) && !slices.Contains(but, key) {
			list = append(list, key)
		}
	}
	return list
}

// wantSame compares the parts of two states of an object that its owner decides.
func wantSame(t *testing.T, want, got *unstructured.Unstructured) {
	t.Helper()
	if got == nil {
		t.Errorf("%s %s is gone", want.GetKind(), want.GetName())
		return
	}
	owned := func(u *unstructured.Unstructured) map[string]any {
		return map[string]any{"spec": u.Object["spec"], "labels": u.GetLabels(), "annotations": u.GetAnnotations(),
			"finalizers": u.GetFinalizers(), "ownerReferences": u.GetOwnerReferences()}
	}
	if diff := cmp.Diff(owned(want), owned(got)); diff != "" {
		t.Errorf("%s %s (-before +after):\n%s", want.GetKind(), want.GetName(), diff)
	}
}
