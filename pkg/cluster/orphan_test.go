package cluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAWorkloadWhoseRolloutIsGoneIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.kubectl("", "patch", "rollout", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.kubectl("", "delete", "rollout", "web")

	n, err := w.client.LetGo(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "web"})
	if n != 1 || err != nil {
		t.Errorf("%d workloads were let go of, error %v", n, err)
	}
	marks := w.get("deployment/web", "{.metadata.labels}{.metadata.annotations}{.spec.paused}")
	if strings.Contains(marks, "sluice.dev") || strings.Contains(marks, "rollouts.kruise.io") || strings.HasSuffix(marks, "true") {
		t.Errorf("the workload is left with %s", marks)
	}
	if n, err := w.client.LetGo(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "web"}); n != 0 || err != nil {
		t.Errorf("the second time %d workloads were let go of, error %v", n, err)
	}
}
