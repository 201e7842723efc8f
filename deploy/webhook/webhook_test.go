// Package webhook_test builds the component of the admission webhook on top of the base, and applies it to an API server.
package webhook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	code := m.Run()
	world.StopShared()
	os.Exit(code)
}

func TestTheComponentAddsTheWebhookToTheBase(t *testing.T) {
	w := world.Shared(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// kustomize accepts only directories inside of the kustomization's root, or relative ones.
	base, err := filepath.Rel(dir, filepath.Join(world.Root(), "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + base + "]\ncomponents: [" + filepath.Join(base, "webhook") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// A dry run, because a webhook without a server would block the shared world.
	w.Do(t, "apply", "--server-side", "-k", dir, "--dry-run=server")
	got := w.Do(t, "apply", "--server-side", "-k", dir, "--dry-run=server", "-o",
		`jsonpath={.items[?(@.metadata.name=="sluice-watcher")].spec.template.spec.containers[0].args} {.items[?(@.kind=="MutatingWebhookConfiguration")].webhooks[*].clientConfig.service.name} {.items[?(@.metadata.name=="sluice-webhook")].kind}`)
	want := `["--health-address=:8080","--log-format=json","--webhook-addr=:9443"] sluice-webhook sluice-webhook Role ClusterRole RoleBinding ClusterRoleBinding Secret Service`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The test removes the policies, as on a server without support for them. Releases in both styles that hold the Deployment still go from step to step, while a
// GitOps tool replaces the Deployment repeatedly.
func TestReleasesAreHeldByTheWebhookAlone(t *testing.T) {
	w := world.Shared(t)
	w.Do(t, "delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "--all")
	world.ServeWebhook(t, w.Cluster)
	rollout := world.Seed(t, "istio-walkthrough/rollout.yaml")
	for name, rollout := range map[string]string{"canary": rollout, "partition": strings.Replace(rollout, "      enableExtraWorkloadForCanary: true\n", "", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := w.Namespace(t)
			manifest := world.Seed(t, "istio-walkthrough/workload.yaml")
			_, deployment, _ := strings.Cut(manifest, "---\n")
			w.Apply(t, ns, manifest+"---\n"+world.Seed(t, "istio-walkthrough/virtualservice.yaml")+"---\n"+rollout)
			w.Await(t, ns, "rollouts-demo", world.Healthy)
			w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
			inForce(t, w, ns, "workload-demo")

			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(strings.Replace(deployment, "value: base", "value: canary", 1)), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetNamespace(ns)
			a := w.Act(t, world.Ways()["replace"], w.Client(t, ns, "deployment"), u)
			for step := range int32(3) {
				r := w.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
				a.Rounds(t, 3)
				updated := w.Do(t, "-n", ns, "get", "deployment", "workload-demo", "-o", "jsonpath={.status.updatedReplicas}")
				want := map[string]string{"canary": "", "partition": fmt.Sprint(r.Status.CanaryStatus.CanaryReplicas)}[name]
				if updated != want {
					t.Errorf("step %d: the Deployment has %q pods of the new version, want %q", step+1, updated, want)
				}
				w.Approve(t, ns, "rollouts-demo")
			}
			w.Await(t, ns, "rollouts-demo", world.Healthy)
		})
	}
}

// While the webhook is served, a second Rollout for one workload is refused, also while the first one is disabled.
func TestASecondRolloutOfAWorkloadIsRefused(t *testing.T) {
	w := world.Shared(t)
	world.ServeWebhook(t, w.Cluster)
	ns := w.Namespace(t)
	first := world.Seed(t, "istio-walkthrough/rollout.yaml")
	second := strings.Replace(first, "name: rollouts-demo", "name: second", 1)
	w.Apply(t, ns, first)
	another := strings.Replace(second, "name: workload-demo", "name: another", 1)
	w.Apply(t, ns, another)
	answer := func(out string, err error) string {
		if err == nil {
			return ""
		}
		return out + err.Error()
	}
	const says = "This rollout conflict with Rollout(rollouts-demo), one workload only have less than one Rollout; change that one: kubectl edit rollout rollouts-demo"
	pointed := func() string {
		return answer(w.Kubectl(t.Context(), "-n", ns, "patch", "rollout", "second", "--dry-run=server", "--type=merge", "-p", `{"spec":{"workloadRef":{"name":"workload-demo"}}}`))
	}
	ctx := world.Patient(t)
	for got := pointed(); !strings.Contains(got, says); got = pointed() { // the API server calls the webhook a while after its configuration
		if ctx.Err() != nil {
			t.Fatalf("a Rollout that is pointed to that workload is answered with %q", got)
		}
	}
	create := func(manifest string) string {
		return answer(w.KubectlStdin(t.Context(), strings.Replace(manifest, "name: second", "name: third", 1), "-n", ns, "create", "--dry-run=server", "-f", "-"))
	}
	if got := create(second); !strings.Contains(got, says) {
		t.Errorf("the second Rollout is answered with %q", got)
	}
	w.Do(t, "-n", ns, "patch", "rollout", "rollouts-demo", "--type=merge", "-p", `{"spec":{"disabled":true}}`)
	if got := create(second); !strings.Contains(got, says) {
		t.Errorf("after the first one is disabled, the second Rollout is answered with %q", got)
	}
	if got := create(strings.Replace(second, "name: workload-demo", "name: third", 1)); got != "" {
		t.Errorf("a Rollout of a third workload is refused: %s", got)
	}
	w.Do(t, "-n", ns, "patch", "rollout", "second", "--type=merge", "-p", `{"spec":{"strategy":{"paused":true}}}`)
}

// inForce waits until the webhook holds changes of an adopted Deployment, some time after its configuration.
func inForce(t *testing.T, w *world.World, namespace, deployment string) {
	t.Helper()
	ctx := world.Patient(t)
	for {
		out, err := w.Kubectl(ctx, "-n", namespace, "patch", "deployment", deployment, "--dry-run=server", "-o", "jsonpath={.spec.paused}",
			"-p", `{"spec":{"template":{"metadata":{"annotations":{"probe":"x"}}}}}`)
		if err == nil && out == "true" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the webhook does not hold: %s %v\n%s", out, err, w.Do(t, "-n", namespace, "get", "deployment", deployment, "-o", "yaml"))
		}
	}
}
