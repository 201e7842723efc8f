package scenario

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// A Rollout is created after the change, while the Deployment is rolling natively. The executor pauses it late: no
// further old pod is replaced, and existing new pods get no traffic.
func TestALateRolloutSeizesTheRelease(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	// The new pods get ready only after the late pause, so the test catches the native rolling update in its middle.
	workload := strings.Replace(world.Seed(t, "istio-walkthrough/workload.yaml"), "replicas: 3", "replicas: 6", 1)
	w.Apply(t, ns, workload)
	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/virtualservice.yaml"))
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	stuck := strings.Replace(patchVersion, `"template":{`, `"template":{"metadata":{"annotations":{"`+controlplane.NeverReady+`":"true"}},`, 1)
	w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", stuck)
	const early = 3 // of 6, with a surge of 25 % and as many unavailable, rounded up and down
	w.Do(t, "-n", ns, "wait", "deployment/workload-demo", fmt.Sprintf("--for=jsonpath={.status.updatedReplicas}=%d", early))
	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/rollout.yaml"))
	w.AwaitObject(t, ns, "deployment", "workload-demo", "held", func(d *unstructured.Unstructured) bool {
		paused, _, _ := unstructured.NestedBool(d.Object, "spec", "paused")
		return paused
	})
	readyFromNow(t, w, ns)

	r := w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	if got := r.Status.CanaryStatus.CanaryReplicas; got != early+1 {
		t.Errorf("canaryReplicas is %v; it should count the %v early pods and the canary", got, early)
	}
	selector := w.Do(t, "-n", ns, "get", "service", "service-demo", "-o", `jsonpath={.spec.selector.pod-template-hash}`)
	if selector != r.Status.CanaryStatus.StableRevision {
		t.Errorf("the stable Service selects %q, not the stable revision %q", selector, r.Status.CanaryStatus.StableRevision)
	}
	for step := range int32(3) {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
		if now := w.Do(t, "-n", ns, "get", "deployment", "workload-demo", "-o", "jsonpath={.status.updatedReplicas}"); now != fmt.Sprint(early) {
			t.Errorf("step %d: the Deployment has %s new pods of its own; it was seized with %v", step+1, now, early)
		}
		w.Approve(t, ns, "rollouts-demo")
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
}

// readyFromNow makes all pods of a namespace ready, including later ones, until the test ends.
func readyFromNow(t *testing.T, w *world.World, ns string) {
	t.Helper()
	pods := w.Client(t, ns, "pod")
	events, err := controlplane.Watch(t.Context(), pods, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e := range events.ResultChan() {
			p, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type == watch.Deleted || p.GetAnnotations()[controlplane.NeverReady] == "" {
				continue
			}
			body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, controlplane.NeverReady)
			_, err := pods.Patch(t.Context(), p.GetName(), types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "tester"})
			if err != nil && t.Context().Err() == nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}()
}
