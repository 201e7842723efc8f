package scenario

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// A workload has the marks of a Rollout that does not exist, as after a restore from a backup, or after a user removed
// the finalizer by force. The executor releases it. Otherwise its next change would be held for ever.
func TestAWorkloadWhoseRolloutDoesNotExistIsLetGo(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	w.Apply(t, ns, strings.Replace(world.Seed(t, "istio-walkthrough/workload.yaml"), "  name: workload-demo\n  labels:\n",
		"  name: workload-demo\n  annotations:\n    sluice.dev/rollout: rollouts-demo\n  labels:\n    rollouts.kruise.io/workload-type: deployment\n", 1))
	d := w.AwaitObject(t, ns, "deployment", "workload-demo", "without our mark", func(u *unstructured.Unstructured) bool {
		_, marked := u.GetAnnotations()["sluice.dev/rollout"]
		return !marked
	})
	if _, labelled := d.GetLabels()["rollouts.kruise.io/workload-type"]; labelled {
		t.Error("the workload still has our label")
	}
}

// A user removes a Rollout by force while its release ends, with all traffic on a Service of the release. The traffic
// stays. If the user creates the Rollout again, the executor returns all traffic.
func TestARouteLeadsSomewhereAfterItsRolloutWasRemovedByForce(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	stop, err := w.Executor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	manifest := blueGreen(t, "{replicas: 100%, traffic: 50%, pause: {duration: 0}}", "{replicas: 100%, traffic: 100%}")
	g := green{aDemo(t, w, manifest)}
	breaches := watchRoutes(t, g.w, g.ns)
	// The old pods stay as long as no new one has been ready for an hour.
	g.release(t, strings.Replace(version("green"), `{"spec":{`, `{"spec":{"minReadySeconds":3600,"progressDeadlineSeconds":7200,`, 1))
	g.await(t, world.PausedAt(2))
	g.approve(t)
	w.AwaitObject(t, g.ns, "deployment", "workload-demo", "let go", func(u *unstructured.Unstructured) bool {
		_, held := u.GetAnnotations()[api.AnnotationInProgressing]
		return !held
	})
	route := g.w.Get(t, g.ns, "virtualservice", "vs-demo")
	stop()
	g.w.Do(t, "-n", g.ns, "patch", "rollout", "rollouts-demo", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	g.w.Do(t, "-n", g.ns, "delete", "rollout", "rollouts-demo")
	w.Begin(t, w.Executor)

	told := firstEvent(t, w, g.ns, "involvedObject.kind=Deployment,involvedObject.name=workload-demo,reason=ReleaseOrphaned")
	if want := "Warning: Rollout rollouts-demo was removed by force during its release. VirtualService vs-demo still leads to what that release made"; !strings.HasPrefix(told, want) {
		t.Errorf("the Event says %q, want %q", told, want)
	}
	wantSame(t, route, g.w.Get(t, g.ns, "virtualservice", "vs-demo"))
	g.w.Get(t, g.ns, "service", "service-demo-canary")

	g.w.Apply(t, g.ns, manifest)
	w.AwaitObject(t, g.ns, "rollout", "rollouts-demo", "adopted", func(u *unstructured.Unstructured) bool { return len(u.GetFinalizers()) > 0 })
	if err := w.Patch(t, g.ns, "deployment", "workload-demo", `{"spec":{"minReadySeconds":0}}`); err != nil {
		t.Fatal(err)
	}
	g.w.Do(t, "-n", g.ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
	g.wantRestored(t)
	for _, breach := range breaches() {
		t.Error(breach)
	}
}
