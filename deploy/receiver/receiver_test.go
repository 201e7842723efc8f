// Package receiver_test builds the component of the approval receiver on top of the base, and applies it to an API server.
package receiver_test

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

func TestTheComponentAddsTheReceiverToTheBase(t *testing.T) {
	w := world.Shared(t)
	dir := t.TempDir()
	// kustomize accepts only directories inside of the kustomization's root, or relative ones.
	base, err := filepath.Rel(resolved(t, dir), filepath.Join(world.Root(), "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + base + "]\ncomponents: [" + filepath.Join(base, "receiver") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "apply", "--server-side", "-k", dir)
	got := w.Do(t, "get", "-n", "sluice-system", "deployment/sluice-watcher", "service/sluice-receiver", "-o",
		`jsonpath={.items[0].spec.template.spec.containers[0].args} {.items[0].spec.template.spec.containers[0].ports[*].name} {.items[0].spec.template.spec.volumes[*].secret.secretName} {.items[1].spec.ports[0].targetPort}`)
	want := `["--health-address=:8080","--log-format=json","--approval-listen=:8443","--approval-tls-cert=/etc/sluice/receiver/tls.crt","--approval-tls-key=/etc/sluice/receiver/tls.key"] health receiver sluice-receiver receiver`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func resolved(t *testing.T, dir string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
