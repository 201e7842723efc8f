package trial

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

// InstalledUser is the user of the parts at [StartInstalled].
const InstalledUser = "sluice"

// StartInstalled runs the single server of the installation until the test ends. With names of clusters it is the server of a fleet's hub: fleet.conf has
// their accounts, as the ConfigMap sluice-nats-fleet has them. Without names it has the file of the installation.
func StartInstalled(t testing.TB, clusters ...string) *server.Server {
	t.Helper()
	dir := Configuration(t, clusters...)
	files := installedFiles(t)
	if len(clusters) > 0 {
		delete(files, "fleet.conf") // another source of the volume has it
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"NATS_USER": InstalledUser, "NATS_PASSWORD": Password(InstalledUser)} {
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatalf("read the installed configuration of NATS: %v", err)
	}
	s := Begin(t, o)
	await(t, s)
	return s
}

// installedFiles returns the files of the ConfigMap sluice-nats.
func installedFiles(t testing.TB) map[string]string {
	t.Helper()
	manifests, err := deploy.Manifests(api.DefaultInstallation(), "parts")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		var c corev1.ConfigMap
		if err := yaml.Unmarshal(document, &c); err == nil && c.Kind == "ConfigMap" && c.Name == "sluice-nats" {
			return c.Data
		}
	}
	t.Fatal("the installation has no ConfigMap sluice-nats")
	return nil
}
