package preflight

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestTheTagOfAnImage(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"sluice": "", "sluice:latest": "latest", "registry.example.com:5000/sluice": "", "registry.example.com:5000/sluice:v1": "v1",
		"registry.example.com/sluice@sha256:abc": "sha256:abc", "registry.example.com/sluice:v1@sha256:abc": "sha256:abc",
	} {
		if got := imageTag(image); got != want {
			t.Errorf("the tag of %s is %q, want %q", image, got, want)
		}
	}
}

// A user may have changed any part of the manifests.
func TestADeploymentThatLacksEverythingHasAWarningForEach(t *testing.T) {
	t.Parallel()
	d := &appsv1.Deployment{}
	d.Name = "sluice-executor"
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "executor", Image: "sluice"}}
	var messages []string
	productionShape{}.judgeProgram("executor", d, func(_, message string, _ ...any) { messages = append(messages, message) })
	all := strings.Join(messages, "\n")
	for _, want := range []string{
		"replicas. If its pod", "No PodDisruptionBudget", "No NetworkPolicy", "on one node", "lacks a request", "may run as root", "runs the image", "readiness probe", "one copy", "without TLS",
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is said %d times in:\n%s", want, strings.Count(all, want), all)
		}
	}
	messages = nil
	d.Spec.Template.Spec.Containers = nil
	productionShape{}.judgeProgram("executor", d, func(_, message string, _ ...any) { messages = append(messages, message) })
	if len(messages) != 4 {
		t.Errorf("a Deployment without containers has %q", messages)
	}
}
