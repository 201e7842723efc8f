package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// The objects of hub-key and join make a hub and a member of the installed executors. Installing again keeps both.
func TestAnInstallationKeepsItsFleet(t *testing.T) {
	cluster := controlplane.ForTest(t, controlplane.Options{})
	install := func() {
		t.Helper()
		code, manifests, errors := sluice(t.Context(), "install", "--print")
		if code != 0 {
			t.Fatal(errors)
		}
		kubectl(t, cluster, manifests, "apply", "--server-side", "-f", "-")
	}
	install()
	established(t, cluster)
	if flags := executorFlags(t, cluster); flags.Member != "" || len(flags.HubKeyFiles) > 0 {
		t.Errorf("without a fleet, the executors have %+v", flags)
	}

	for command, wantCode := range map[string]int{"members": 0, "list -A": 0, "attention -A": 0, "get checkout": 1} {
		args := append(append([]string{"fleet"}, strings.Fields(command)...), "--kubeconfig", cluster.Kubeconfig)
		if code, _, errors := sluice(t.Context(), args...); code != wantCode || !strings.Contains(errors, "This cluster has no FleetMembers. If it is not the hub of the fleet, choose the hub with --context.") {
			t.Errorf("in a cluster without members, %s ends with %d: %s", command, code, errors)
		}
	}

	applies := strings.Fields(applyObjects + " -f -")[1:]
	code, key, errors := sluice(t.Context(), "fleet", "hub-key")
	if code != 0 {
		t.Fatal(errors)
	}
	kubectl(t, cluster, key, applies...)
	join := []string{"fleet", "join", "eu1", "--hub-nats-url", "tls://nats.example.com", "--labels", "env=prod", "--kubeconfig", cluster.Kubeconfig}
	code, out, errors := sluice(t.Context(), join...)
	if code != 0 {
		t.Fatal(errors)
	}
	hub, member, _ := strings.Cut(out, "---\n# For the cluster eu1")
	kubectl(t, cluster, hub, "apply", "-f", "-")
	kubectl(t, cluster, "---\n# "+member, applies...)
	if code, _, errors := sluice(t.Context(), join...); code != 1 || !strings.Contains(errors, "the fleet has a FleetMember eu1 already") {
		t.Errorf("a second join ended with %d: %s", code, errors)
	}
	if got := kubectl(t, cluster, "", "get", "fleetmember", "-l", "env=prod", "-o", "jsonpath={.items[*].metadata.name}"); got != "eu1" {
		t.Errorf("the hub has the members %q", got)
	}

	for _, when := range []string{"after hub-key and join", "after another installation"} {
		flags := executorFlags(t, cluster)
		if err := flags.Validate(); err != nil || flags.Member != "eu1" || len(flags.HubKeyFiles) != 1 || flags.NATS.URL != "tls://nats.example.com" {
			t.Errorf("%s, the executors have %+v: %v", when, flags, err)
		}
		install()
	}
}

// executorFlags returns the fleet flags of an executor that the Deployment of the cluster would start now: with the environment of its ConfigMaps, and with the
// files of its Secrets in a directory of the test.
func executorFlags(t *testing.T, cluster *controlplane.Cluster) *component.FleetFlags {
	t.Helper()
	var pod corev1.PodSpec
	read(t, kubectl(t, cluster, "", "get", "deployment", api.DefaultExecutor, "-n", api.DefaultNamespace, "-o", "jsonpath={.spec.template.spec}"), &pod)
	container, dir := pod.Containers[0], t.TempDir()
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name {
				var secret corev1.Secret
				readOptional(t, cluster, "secret", volume.Secret.SecretName, *volume.Secret.Optional, &secret)
				writeFiles(t, filepath.Join(dir, mount.MountPath), secret.Data)
			}
		}
	}
	t.Setenv("SLUICE_FLEET_MEMBER", "") // t.Setenv restores it
	for _, source := range container.EnvFrom {
		var settings corev1.ConfigMap
		readOptional(t, cluster, "configmap", source.ConfigMapRef.Name, *source.ConfigMapRef.Optional, &settings)
		for name, value := range settings.Data {
			if strings.HasPrefix(value, "/") {
				value = filepath.Join(dir, value)
			}
			t.Setenv(name, value)
		}
	}
	var flags component.FleetFlags
	set := pflag.NewFlagSet("executor", pflag.ContinueOnError)
	flags.AddFlags(set)
	var own []string
	for _, argument := range container.Args {
		if strings.HasPrefix(argument, "--fleet-") {
			own = append(own, argument)
		}
	}
	if err := set.Parse(own); err != nil {
		t.Fatal(err)
	}
	return &flags
}

// readOptional reads an object. One that is optional may be missing.
func readOptional(t *testing.T, cluster *controlplane.Cluster, kind, name string, optional bool, into any) {
	t.Helper()
	text := kubectl(t, cluster, "", "get", kind, name, "-n", api.DefaultNamespace, "-o", "json", "--ignore-not-found")
	switch {
	case text != "":
		read(t, text, into)
	case !optional:
		t.Fatalf("there is no %s %s", kind, name)
	}
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
