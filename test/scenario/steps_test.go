package scenario

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A pause with a duration ends by itself, and so does the last step with all replicas.
func TestPausesWithADurationEndByThemselves(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), withSteps(t,
		"{replicas: 1, traffic: 10%, pause: {duration: 0}}", "{replicas: 50%, traffic: 50%, pause: {duration: 1}}", "{replicas: 100%, traffic: 100%}"))
	d.release(t, version("canary"))
	r := d.await(t, world.PausedAt(2))
	begun := r.Status.Sluice.Since
	d.await(t, func(r *api.Rollout) bool { return r.Status.CurrentStepIndex == 3 })
	r = d.await(t, world.Healthy)
	for _, transition := range r.Status.Sluice.Transitions {
		if transition.Reason == "PauseOver" && transition.Step == 2 && transition.Time.Sub(begun.Time).Seconds() < 1 {
			t.Errorf("the pause of one second ended after %s", transition.Time.Sub(begun.Time))
		}
	}
	if len(r.Status.Approvals) > 0 {
		t.Errorf("approvals nobody gave: %+v", r.Status.Approvals)
	}
	d.wantRestored(t)
}

// A newer version during a release starts over. The laws that the test checks against the audit log say that traffic
// leaves before pods go.
func TestANewerVersionDuringAReleaseStartsOver(t *testing.T) {
	t.Parallel()
	for step := int32(1); step <= 3; step++ {
		t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t))
			d.release(t, version("v2"))
			stable := d.at(t, step).Status.CanaryStatus.StableRevision
			d.release(t, version("v3"))
			r := d.await(t, func(r *api.Rollout) bool { return world.PausedAt(1)(r) && r.Status.Sluice.Epoch == 2 })
			if got := r.Status.CanaryStatus.StableRevision; got != stable {
				t.Errorf("the stable revision became %s, it was %s", got, stable)
			}
			wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", headerRoute)
			canary := d.w.Get(t, d.ns, "deployment", "workload-demo-canary")
			if got := versionOf(canary); got != "v3" {
				t.Errorf("the canary runs %s", got)
			}
			d.finish(t, 1)
			d.w.Available(t, d.ns, "workload-demo")
			d.wantRestored(t)
		})
	}
}

func versionOf(u *unstructured.Unstructured) string {
	if u == nil {
		return "nothing"
	}
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		container, _ := c.(map[string]any)
		env, _ := container["env"].([]any)
		for _, e := range env {
			variable, _ := e.(map[string]any)
			return fmt.Sprint(variable["value"])
		}
	}
	return "nothing"
}

// A return to the previous version ends the release, and no pod of the stable version is replaced.
func TestARollbackEndsTheRelease(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(*testing.T, *demo, *unstructured.Unstructured){
		"by apply": func(t *testing.T, d *demo, _ *unstructured.Unstructured) {
			d.w.Apply(t, d.ns, world.Seed(t, "istio-walkthrough/workload.yaml"))
		},
		"by undo": kruiseUndo,
	} {
		for step := int32(1); step <= 3; step++ {
			t.Run(fmt.Sprintf("%s at step %d", name, step), func(t *testing.T) {
				t.Parallel()
				d := aDemo(t, world.Shared(t))
				workload := d.w.Get(t, d.ns, "deployment", "workload-demo")
				d.release(t, version("v2"))
				stable := d.at(t, step).Status.CanaryStatus.StableRevision
				before := podsOf(t, d, stable)
				undo(t, d, workload)
				r := d.await(t, world.Healthy)
				if c := world.Condition(r, api.ConditionSucceeded); c == nil || c.Status != "False" {
					t.Errorf("the condition Succeeded is %+v after a rollback", c)
				}
				if got := r.Status.CanaryStatus.StableRevision; got != stable {
					t.Errorf("the stable revision became %s, it was %s", got, stable)
				}
				d.w.Available(t, d.ns, "workload-demo")
				if after := podsOf(t, d, stable); after != before {
					t.Errorf("stable pods were replaced: they were\n%s\nand are\n%s", before, after)
				}
				d.wantRestored(t)
			})
		}
	}
}

// kruiseUndo sends the same patch as kubectl-kruise rollout undo: the template, and of the annotations only
// OpenKruise's and the revision's. This must not lose the annotations of Sluice.
func kruiseUndo(t *testing.T, d *demo, to *unstructured.Unstructured) {
	t.Helper()
	annotations := map[string]string{}
	for key, value := range d.w.Get(t, d.ns, "deployment", "workload-demo").GetAnnotations() {
		if strings.Contains(key, "rollouts.kruise.io/") {
			annotations[key] = value
		}
	}
	template, _, _ := unstructured.NestedMap(to.Object, "spec", "template")
	patch := toJSON(t, []map[string]any{
		{"op": "replace", "path": "/spec/template", "value": template},
		{"op": "replace", "path": "/metadata/annotations", "value": annotations},
	})
	_, err := d.w.Client(t, d.ns, "deployment").Patch(t.Context(), "workload-demo", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func podsOf(t *testing.T, d *demo, revision string) string {
	t.Helper()
	return d.w.Do(t, "-n", d.ns, "get", "pods", "-l", "pod-template-hash="+revision, "-o", "name")
}
