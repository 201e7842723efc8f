package scenario

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/test/world"
)

// A Rollout that is created after the change, while the Deployment is rolling natively, seizes the release: no further old pod is
// replaced, and the pods that are new already get no traffic.
func TestALateRolloutSeizesTheRelease(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	// The new pods take a while to become ready, so that the native rolling update is caught in its middle.
	workload := strings.Replace(world.Seed(t, "istio-walkthrough/workload.yaml"), "replicas: 3", "replicas: 6", 1)
	w.Apply(t, ns, workload)
	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/virtualservice.yaml"))
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	slow := strings.Replace(patchVersion, `"template":{`, `"template":{"metadata":{"annotations":{"sluice.dev/ready-after":"6s"}},`, 1)
	w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", slow)
	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/rollout.yaml"))

	r := w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	d := w.Object(t, ns, "deployment", "workload-demo")
	if paused, _ := d.Object["spec"].(map[string]any)["paused"].(bool); !paused {
		t.Error("the Deployment is not held")
	}
	status, _ := d.Object["status"].(map[string]any)
	early, _ := status["updatedReplicas"].(float64)
	if total, _ := status["replicas"].(float64); early == 0 || early >= total {
		t.Errorf("the native update was not caught in its middle: %v of %v pods are new", early, total)
	}
	if got := float64(r.Status.CanaryStatus.CanaryReplicas); got != early+1 {
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
