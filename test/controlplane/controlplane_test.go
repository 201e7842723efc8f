package controlplane_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/test/controlplane"
)

// kubectl runs kubectl within a deadline and fails the test when kubectl does.
func kubectl(t *testing.T, c *controlplane.Cluster, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := c.KubectlStdin(ctx, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

const threeReplicas = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:1}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

func TestADeploymentBecomesAvailable(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{})
	kubectl(t, c, threeReplicas, "apply", "-f", "-")
	kubectl(t, c, "", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")

	addresses := map[string]bool{}
	for _, ip := range strings.Fields(kubectl(t, c, "", "get", "pods", "-o", "jsonpath={.items[*].status.podIP}")) {
		addresses[ip] = true
	}
	if len(addresses) != 3 {
		t.Errorf("three pods have the addresses %v", addresses)
	}
	// kubectl wait with an index in a list needs the element to exist when it begins.
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ready := kubectl(t, c, "", "get", "endpointslice", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if ready == "true true true" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the endpoints are ready: %q", ready)
		}
	}
}

func TestPodsAreAsReadyAsTheyAreTold(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{Nodes: 1})
	kubectl(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: never, labels: {sluice.dev/never-ready: "true"}}
spec: {containers: [{name: a, image: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: later, annotations: {sluice.dev/ready-after: 1500ms}}
spec: {containers: [{name: a, image: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: initialised}
spec:
  initContainers: [{name: once, image: a}, {name: beside, image: a, restartPolicy: Always}]
  containers: [{name: a, image: a}]
`, "apply", "-f", "-")
	wait := func(pod, condition string) {
		kubectl(t, c, "", "wait", "pod/"+pod, "--for="+condition, "--timeout=600s")
	}
	const startedAt = "jsonpath={.status.startTime}"
	wait("initialised", "condition=Ready")
	wait("later", "condition=Ready")
	started, ready := kubectl(t, c, "", "get", "pod", "later", "-o", startedAt),
		kubectl(t, c, "", "get", "pod", "later", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
	if started >= ready {
		t.Errorf("the pod started at %s and was ready at %s, not after its delay", started, ready)
	}
	wait("never", "jsonpath={.status.phase}=Running")
	wait("never", "condition=Ready=false")
	kubectl(t, c, "", "label", "pod", "never", controlplane.NeverReady+"-")
	wait("never", "condition=Ready")
	kubectl(t, c, "", "annotate", "pod", "never", controlplane.NeverReady+"=true")
	wait("never", "condition=Ready=false")
}

func TestTheAuditLogWitnessesWrites(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{Nodes: 1, Audit: true})
	kubectl(t, c, "", "create", "configmap", "seen", "--from-literal=a=1")
	kubectl(t, c, "", "patch", "configmap", "seen", "--type=merge", "-p", `{"data":{"a":"2"}}`)
	kubectl(t, c, "", "get", "configmap", "seen")
	if _, err := c.Kubectl(t.Context(), "delete", "configmap", "seen", "--as=bob"); err == nil {
		t.Error("bob, who has no role, deleted a ConfigMap")
	}
	events, err := controlplane.Audit(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Verb, User, Impersonator, Resource, Namespace, Name string
		Code                                                int
	}
	var got []seen
	for _, e := range events {
		got = append(got, seen{e.Verb, e.User, e.Impersonator, e.Resource, e.Namespace, e.Name, e.Code})
		if e.Answered.Before(e.Received) || e.Received.IsZero() {
			t.Errorf("%s was received at %s and answered at %s", e.Verb, e.Received, e.Answered)
		}
	}
	want := []seen{
		{"create", "admin", "", "configmaps", "default", "seen", 201},
		{"patch", "admin", "", "configmaps", "default", "seen", 200},
		{"delete", "bob", "admin", "configmaps", "default", "seen", 403},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the audit log differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(`{"data":{"a":"2"}}`, string(events[1].RequestObject)); diff != "" {
		t.Errorf("the patch in the audit log differs (-want +got):\n%s", diff)
	}
}

func TestAdmissionPoliciesAndIstioAreServed(t *testing.T) {
	t.Parallel()
	istio, err := controlplane.IstioCRDs()
	if err != nil {
		t.Fatal(err)
	}
	c := controlplane.ForTest(t, controlplane.Options{Nodes: 1, CRDs: []string{istio}})
	for _, path := range []string{
		"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"/apis/networking.istio.io/v1/virtualservices",
		"/apis/networking.istio.io/v1/destinationrules",
	} {
		kubectl(t, c, "", "get", "--raw", path)
	}
}

func TestAStartThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the start ended with %v, not with the deadline", err)
	}
	awaitNoProcess(t, dir)
}

func TestACRDFileThatIsNoneStopsTheStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	file := t.TempDir() + "/service.yaml"
	if err := os.WriteFile(file, []byte("kind: Service\napiVersion: v1\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{file}})
	if err == nil || !strings.Contains(err.Error(), "it holds a Service") {
		t.Errorf("the start ended with %v, which does not name the wrong kind", err)
	}
}
