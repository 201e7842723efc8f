// Package helm checks the Helm chart with both versions of the helm command, a real API server and real NATS servers.
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// commands are the versions of the helm command.
var commands = []string{"helm3", "helm4"}

func chart() string { return filepath.Join(world.Root(), "deploy", "helm", "sluice") }

// helm runs a version of the helm command with directories of its own. Without a kubeconfig it reaches no cluster.
func helm(ctx context.Context, command, home, kubeconfig string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, filepath.Join(world.Root(), "bin", command), args...)
	c.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
		"HELM_CACHE_HOME="+filepath.Join(home, "cache"), "HELM_CONFIG_HOME="+filepath.Join(home, "config"), "HELM_DATA_HOME="+filepath.Join(home, "data"))
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

// render returns the objects of the chart with these arguments.
func render(t *testing.T, command, namespace string, args ...string) map[string]map[string]any {
	t.Helper()
	out, err := helm(t.Context(), command, t.TempDir(), "", append([]string{"template", "sluice", chart(), "-n", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return world.ReadManifests(t, []byte(out))
}

// The chart has no Namespace, because Helm creates it, and it protects the definitions from uninstalling.
func TestTheDefaultRenderIsWhatInstallPrints(t *testing.T) {
	t.Parallel()
	other := api.Installation{Namespace: "progressive", Watcher: "eyes", Executor: "hands", Analyzer: "scales"}
	for _, command := range commands {
		for name, c := range map[string]struct {
			in   api.Installation
			args []string
		}{
			"as it is": {api.DefaultInstallation(), nil},
			"with other names": {other, []string{
				"--set", "watcher.serviceAccount.name=eyes,executor.serviceAccount.name=hands,analyzer.serviceAccount.name=scales",
			}},
			"with the webhook": {other, []string{
				"--set", "watcher.serviceAccount.name=eyes,executor.serviceAccount.name=hands,analyzer.serviceAccount.name=scales,admission=both",
			}},
		} {
			t.Run(command+" "+name, func(t *testing.T) {
				t.Parallel()
				parts := []string{"crds", "policies", "rbac", "parts"}
				webhook := strings.Contains(name, "webhook")
				if webhook {
					parts = append(parts, "webhook")
				}
				printed, err := deploy.Manifests(c.in, parts...)
				if err != nil {
					t.Fatal(err)
				}
				rendered := render(t, command, c.in.Namespace, c.args...)
				for _, o := range rendered {
					if o["kind"] != "CustomResourceDefinition" {
						continue
					}
					annotations := o["metadata"].(map[string]any)["annotations"].(map[string]any)
					if annotations["helm.sh/resource-policy"] != "keep" {
						t.Errorf("%s is not kept", o["metadata"].(map[string]any)["name"])
					}
					delete(annotations, "helm.sh/resource-policy")
				}
				if webhook { // its argument and port are checked by the API server's and the watcher's tests
					delete(rendered, "Deployment/"+c.in.Namespace+"/sluice-watcher")
				}
				want := world.ReadManifests(t, printed)
				if webhook {
					delete(want, "Deployment/"+c.in.Namespace+"/sluice-watcher")
				}
				if diff := cmp.Diff(want, rendered); diff != "" {
					t.Errorf("(-printed +rendered):\n%s", diff)
				}
			})
		}
	}
}

func TestValuesThatAreWrongAreErrors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"executor.replica=3":                                    "replica",
		"executer.replicas=3":                                   "executer",
		"nats.tls.existingSecrets=x":                            "existingSecrets",
		"nats.replicas=2":                                       "1, 3",
		"admission=webhooks":                                    "'policies', 'webhook', 'both'",
		"image.digest=latest":                                   "sha256",
		"image.tag=15":                                          "string",
		"executor.serviceAccount.name=":                         "serviceAccount",
		"nats.embedded=false":                                   "nats.url is missing",
		"receiver.enabled=true,receiver.existingSecret=":        "receiver.existingSecret is missing",
		"receiver.enabled=true,receiver.ingress.enabled=true":   "receiver.ingress.host is missing",
		"receiver.enabled=true,receiver.httpRoute.enabled=true": "receiver.httpRoute.parentRefs is missing",
		"receiver.ingress.enabled=true":                         "receiver.enabled is false",
		"fleet.hub.natsService.enabled=true,nats.embedded=false,nats.url=nats://one:4222": "for the embedded NATS",
	} {
		for _, command := range commands {
			out, err := helm(t.Context(), command, t.TempDir(), "", "template", "sluice", chart(), "--set", args)
			if err == nil {
				t.Errorf("%s takes %s, and renders %d bytes", command, args, len(out))
			} else if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error for %s does not say %q: %v", command, args, want, err)
			}
		}
	}
	for _, command := range commands {
		if _, err := helm(t.Context(), command, t.TempDir(), "", "template", "sluice", chart(), "--set", "global.anything.at=all"); err != nil {
			t.Error(err)
		}
		_, err := helm(t.Context(), command, t.TempDir(), "", "template", "sluice", chart(), "--kube-version", "1.33")
		if err == nil || !strings.Contains(err.Error(), "admission=webhook") {
			t.Errorf("%s renders policies for Kubernetes 1.33, which does not serve them: %v", command, err)
		}
	}
}
