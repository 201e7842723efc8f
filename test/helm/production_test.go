package helm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/test/world"
)

// The values for production leave `sluice check --production` nothing to say. It tells what the default values lack.
func TestTheValuesForProductionAreFitForIt(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	examples := filepath.Join(world.Root(), "examples", "production")
	look, err := preflight.New(c.Config, api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if _, err := helm(t.Context(), commands[1], home, c.Kubeconfig, append(args, "-n", api.DefaultNamespace)...); err != nil {
			t.Fatal(err)
		}
	}
	run("install", "sluice", chart(), "--create-namespace", "--set", "crds.install=false")
	found := look.CheckProduction(t.Context())
	var remedies []string
	for _, f := range found {
		if f.Level != preflight.LevelWarning {
			t.Errorf("a finding is no warning: %+v", f)
		}
		_, value, _ := strings.Cut(strings.TrimSuffix(f.Remedy, "."), ": ")
		remedies = append(remedies, value)
	}
	slices.Sort(remedies)
	want := []string{
		"analyzer.podDisruptionBudget.enabled=true", "analyzer.replicas=2", "analyzer.topologySpreadConstraints",
		"executor.podDisruptionBudget.enabled=true", "executor.topologySpreadConstraints", "image.tag or image.digest",
		"nats.podDisruptionBudget.enabled=true", "nats.replicas=3", "nats.tls.existingSecret", "nats.topologySpreadConstraints",
		"networkPolicy.enabled=true", "watcher.podDisruptionBudget.enabled=true", "watcher.topologySpreadConstraints",
	}
	if got := slices.Compact(slices.Clone(remedies)); !slices.Equal(got, want) {
		t.Errorf("the remedies for the default values are %q, want %q", got, want)
	}

	run("upgrade", "sluice", chart(), "-f", filepath.Join(examples, "values.yaml"), "--set", "crds.install=false")
	if found := look.CheckProduction(t.Context()); len(found) != 1 || found[0].Level != preflight.LevelOK {
		t.Errorf("the values for production leave %+v", found)
	}
	for _, file := range []string{"certificates.yaml", "keda.yaml", "hpa.yaml"} {
		if out, err := c.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-f", filepath.Join(examples, file)); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	run("uninstall", "sluice")
	if found := look.CheckProduction(t.Context()); len(found) != 3 || !strings.Contains(found[0].Message, "There is no Deployment sluice-watcher") {
		t.Errorf("without an installation the findings are %+v", found)
	}
}
