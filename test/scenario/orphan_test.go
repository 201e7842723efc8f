package scenario

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

// A workload that carries the marks of a Rollout that does not exist, as after a restore from a backup or after somebody took our
// finalizer off by force, is let go: else its next change would be held for ever.
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
