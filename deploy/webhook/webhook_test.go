// Package webhook_test builds the component of the admission webhook on top of the base, and puts it to an API server.
package webhook_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	// kustomize takes directories inside of the kustomization's root only, or relative ones.
	base, err := filepath.Rel(dir, filepath.Join(world.Root(), "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + base + "]\ncomponents: [" + filepath.Join(base, "webhook") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// A dry run: the world that tests share shall have no webhook that nobody serves.
	w.Do(t, "apply", "--server-side", "-k", dir, "--dry-run=server")
	got := w.Do(t, "apply", "--server-side", "-k", dir, "--dry-run=server", "-o",
		`jsonpath={.items[?(@.metadata.name=="sluice-watcher")].spec.template.spec.containers[0].args} {.items[?(@.kind=="MutatingWebhookConfiguration")].webhooks[*].clientConfig.service.name} {.items[?(@.metadata.name=="sluice-webhook")].kind}`)
	want := `["--health-address=:8080","--log-format=json","--webhook-addr=:9443"] sluice-webhook Role ClusterRole RoleBinding ClusterRoleBinding Secret Service`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
