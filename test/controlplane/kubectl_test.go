package controlplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/controlplane"
)

// One process runs all commands, each with its own input, output and failure.
func TestCommandsDoNotMeet(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{Nodes: 1})
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			name := fmt.Sprintf("map-%d", n)
			manifest := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {number: "%d"}}`, name, n)
			if out, err := c.KubectlStdin(t.Context(), manifest, "apply", "-f", "-"); err != nil || out != "configmap/"+name+" created\n" {
				t.Errorf("apply of %s prints %q: %v", name, out, err)
			}
			if out, err := c.Kubectl(t.Context(), "get", "configmap", name, "-o", "jsonpath={.data.number}"); err != nil || out != fmt.Sprint(n) {
				t.Errorf("get of %s prints %q: %v", name, out, err)
			}
			missing := "missing-" + name
			if out, err := c.Kubectl(t.Context(), "get", "configmap", missing); err == nil || out != "" || !strings.HasSuffix(err.Error(), `Error from server (NotFound): configmaps "`+missing+`" not found`) {
				t.Errorf("get of %s prints %q: %v", missing, out, err)
			}
		})
	}
	all.Wait()
	for answer, who := range map[string]string{"yes\n": "system:masters", "no\n": "nobodies"} {
		if out, err := c.Kubectl(t.Context(), "auth", "can-i", "delete", "nodes", "--as=somebody", "--as-group="+who); out != answer || (err == nil) != (answer == "yes\n") {
			t.Errorf("kubectl auth can-i of %s prints %q: %v", who, out, err)
		}
	}
	if out, err := c.Kubectl(t.Context(), "get", "namespace", "default", "-o", "name"); err != nil || out != "namespace/default\n" {
		t.Errorf("after a command that fails another one prints %q: %v", out, err)
	}
}

// Apply without kubectl must have the same result as kubectl, for a new object and for an existing one.
func TestApplyWritesWhatKubectlWrites(t *testing.T) {
	t.Parallel()
	c := controlplane.ForTest(t, controlplane.Options{Nodes: 1})
	const manifests = "# a comment\n---" + threeReplicas
	apply := map[string]func(string) error{
		"by-kubectl": func(text string) error {
			_, err := c.KubectlStdin(t.Context(), text, "apply", "-n", "by-kubectl", "-f", "-")
			return err
		},
		"without": func(text string) error { return c.Apply(t.Context(), "without", text) },
	}
	stored := map[string][]any{}
	for _, version := range []string{"web:1", "web:2"} {
		for namespace, do := range apply {
			if version == "web:1" {
				kubectl(t, c, "", "create", "namespace", namespace)
			}
			if err := do(strings.Replace(manifests, "web:1", version, 1)); err != nil {
				t.Fatal(err)
			}
			for _, what := range []string{"deployment", "service"} {
				stored[namespace] = append(stored[namespace], writtenByKubectl(t, c, namespace, what))
			}
		}
	}
	if diff := cmp.Diff(stored["by-kubectl"], stored["without"]); diff != "" {
		t.Errorf("by kubectl (-) and without it (+):\n%s", diff)
	}
	if err := c.Apply(t.Context(), "without", strings.Replace(threeReplicas, "replicas: 3", "replica: 3", 1)); err == nil || !strings.Contains(err.Error(), `unknown field "spec.replica"`) {
		t.Errorf("a field that does not exist is answered with: %v", err)
	}
}

// writtenByKubectl returns the fields of an object that kubectl has written. It leaves out fields that differ between
// namespaces or over time.
func writtenByKubectl(t *testing.T, c *controlplane.Cluster, namespace, what string) any {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(kubectl(t, c, "", "get", what, "web", "-n", namespace, "-o", "json", "--show-managed-fields"))); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	for _, entry := range u.GetManagedFields() {
		if entry.Subresource == "" && entry.Manager != "kube-controller-manager" {
			fields[entry.Manager+" "+string(entry.Operation)] = entry.FieldsV1.GetRawString()
		}
	}
	applied := strings.ReplaceAll(u.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"], namespace, "namespace")
	return map[string]any{"fields": fields, "applied": applied, "labels": u.GetLabels()}
}
