package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/kruise"
)

// advanced is a kind of OpenKruise, with the status fields that show its generation and its running pods.
type advanced struct {
	kind, resource, apiVersion, fields string
	// all and current are status fields: the number of running pods, and the number of those with the current template.
	all, current string
}

func TestOpenKruisesWorkloadsAreShownAndGivenTheirTemplatesAgain(t *testing.T) {
	t.Parallel()
	crds, err := kruise.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := crdDirectory()
	if err != nil {
		t.Fatal(err)
	}
	cluster := controlplane.ForTest(t, controlplane.Options{CRDs: []string{ours, crds}, Nodes: 1})
	controllers, err := kruise.Start(t.Context(), cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := controllers.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, a := range []advanced{
		{"CloneSet", "clonesets.apps.kruise.io", "apps.kruise.io/v1alpha1", "replicas: 1, ", "readyReplicas", "updatedReplicas"},
		{"StatefulSet", "statefulsets.apps.kruise.io", "apps.kruise.io/v1beta1", "replicas: 1, ", "readyReplicas", "updatedReplicas"},
		{"DaemonSet", "daemonsets.apps.kruise.io", "apps.kruise.io/v1alpha1", "", "numberReady", "updatedNumberScheduled"},
	} {
		t.Run(a.kind, func(t *testing.T) { // not in parallel, because OpenKruise's webhooks must outlive it
			a.twoVersions(t, cluster)
			do := func(args ...string) (int, string, string) {
				return sluice(t.Context(), append(args, "-n", "default", "--kubeconfig", cluster.Kubeconfig)...)
			}
			code, out, errors := do("get", "rollout", a.name())
			want := fmt.Sprintf("\nstable  %s %s  1/1 ready\n", a.kind, a.name()) + "`- ControllerRevision " + a.name()
			if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "  1/1 ready  v2\n    + ") || strings.Contains(out, "!") {
				t.Errorf("the tree ended with %d:\n%s%s", code, out, errors)
			}
			code, out, errors = do("undo", a.name())
			if code != 0 || out != strings.ToLower(a.kind)+".apps.kruise.io/"+a.name()+" rolled back to revision 1\n" ||
				!strings.Contains(errors, "It asks for v1 again.\n") || !strings.Contains(errors, "kubectl get "+a.resource+" "+a.name()+" -n default -w") {
				t.Errorf("the undo ended with %d:\n%s%s", code, out, errors)
			}
			a.rolled(t, cluster)
			image := kubectl(t, cluster, "", "get", a.resource, a.name(), "-o", "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.metadata.labels}")
			if diff := cmp.Diff(fmt.Sprintf(`v1 {"app":"%s"}`, a.name()), image); diff != "" {
				t.Errorf("the template (-want +got):\n%s", diff)
			}
			if code, out, errors := do("history", a.name()); code != 0 || !strings.Contains(out, "\n3          v1 ") || strings.Contains(out, "\n1 ") {
				t.Errorf("the history ended with %d:\n%s%s", code, out, errors)
			}
		})
	}
}

func (a advanced) name() string { return "shop-" + strings.ToLower(a.kind) }

// twoVersions creates the workload with revisions 1 and 2, with the images v1 and v2, and a Rollout for it.
func (a advanced) twoVersions(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	manifest := func(image string) {
		t.Helper()
		apply(t, cluster, fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata: {name: %[3]s}
spec: {%[4]s selector: {matchLabels: {app: %[3]s}}, template: {metadata: {labels: {app: %[3]s}}, spec: {containers: [{name: app, image: %[5]s}]}}}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: %[3]s}
spec: {workloadRef: {apiVersion: %[1]s, kind: %[2]s, name: %[3]s}, strategy: {canary: {steps: [{replicas: 100%%}]}}}
`, a.apiVersion, a.kind, a.name(), a.fields, image))
		a.rolled(t, cluster)
	}
	manifest("v1")
	manifest("v2")
}

// rolled waits until the controller has observed the workload and its one pod runs the template.
func (a advanced) rolled(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	generation := kubectl(t, cluster, "", "get", a.resource, a.name(), "-o", "jsonpath={.metadata.generation}")
	for _, is := range []string{"observedGeneration}=" + generation, a.current + "}=1", a.all + "}=1"} {
		if _, err := cluster.Kubectl(ctx, "wait", a.resource, a.name(), "--for=jsonpath={.status."+is, "--timeout=600s"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatAWorkloadDoesWithATemplateThatNobodyHolds(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		group, resource, kind, strategy, want string
	}{
		"a StatefulSet rolls": {"apps", "statefulsets", "StatefulSet", "RollingUpdate", "so that the template goes out at once. Follow it with: kubectl rollout status statefulset/web -n shop"},
		"an Advanced StatefulSet rolls, which kubectl does not follow": {"apps.kruise.io", "statefulsets", "StatefulSet", "RollingUpdate",
			"so that the template goes out at once. Follow it with: kubectl get statefulsets.apps.kruise.io web -n shop -w"},
		"a DaemonSet of type OnDelete waits": {"apps", "daemonsets", "DaemonSet", "OnDelete", "so that each pod that is deleted comes back with the template."},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := revision.Workload{Object: &unstructured.Unstructured{Object: map[string]any{
				"kind": test.kind, "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"updateStrategy": map[string]any{"type": test.strategy}},
			}}}
			if diff := cmp.Diff(test.want, goesOut(schema.GroupVersionResource{Group: test.group, Resource: test.resource}, w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
