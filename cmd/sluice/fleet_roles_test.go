package main

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/test/controlplane"
)

// Each command that only reads prints the same to users with each shipped role. Teams and pipelines also have the role that reads clusters and plans.
func TestEachRoleSeesWhatItsCommandsShow(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	namespace := controlplane.NamespaceFor(t)
	kubectl(t, cluster, "", "create", "namespace", namespace)
	kubectl(t, cluster, "", "apply", "-f", "../../deploy/rbac/fleet.yaml")
	apply(t, cluster, fmt.Sprintf(`{apiVersion: sluice.dev/v1alpha1, kind: FleetPlan, metadata: {name: %[1]s}, spec: {namespaces: [%[1]s], waves: [{name: first, percent: 50, pause: {}}, {name: rest}]}}
---
{apiVersion: sluice.dev/v1alpha1, kind: FleetRollout, metadata: {name: checkout, namespace: %[1]s}, spec: {plan: %[1]s, release: {version: v2}}}`, namespace))
	kubectl(t, cluster, "", "patch", "fleetrollout", "checkout", "-n", namespace, "--subresource=status", "--type=merge", "-p", strings.Replace(fmt.Sprintf(givenFleetStatus, 7, 3), `"counts":{"Completed":1}`, `"observedGeneration":1,"counts":{"Pending":1}`, 1))
	for _, role := range []string{"platform", "viewer", "app", "ci"} {
		user := namespace + "-" + role
		if role == "platform" || role == "viewer" {
			kubectl(t, cluster, "", "create", "clusterrolebinding", user, "--clusterrole=sluice-fleet-"+role, "--user="+user)
		} else {
			kubectl(t, cluster, "", "create", "rolebinding", user, "-n", namespace, "--clusterrole=sluice-fleet-"+role, "--user="+user)
			kubectl(t, cluster, "", "create", "clusterrolebinding", user, "--clusterrole=sluice-fleet-clusters", "--user="+user)
		}
		file := impersonating(t, cluster.Kubeconfig, user)
		for command, code := range map[string]int{
			"list": 0, "get checkout": 0, "get checkout -o yaml": 0, "targets checkout": 0, "members": 0, "attention": 0, "plan checkout": 0,
			"status checkout --timeout 10m": codeRefused, "status checkout --until-wave first --timeout 10m": 0,
		} {
			args := append(append([]string{"fleet"}, strings.Fields(command)...), "-n", namespace, "--kubeconfig", file)
			if got, out, errors := sluice(t.Context(), args...); got != code || strings.Contains(out+errors, "cannot be shown") {
				t.Errorf("%s as %s ended with %d, want %d:\n%s%s", command, role, got, code, out, errors)
			}
		}
	}
	stranger := impersonating(t, cluster.Kubeconfig, namespace+"-stranger")
	for command, want := range map[string]string{"members": "--clusterrole=sluice-fleet-clusters", "get checkout": "--clusterrole=sluice-fleet-viewer"} {
		args := append(append([]string{"fleet"}, strings.Fields(command)...), "-n", namespace, "--kubeconfig", stranger)
		if code, _, errors := sluice(t.Context(), args...); code != 1 || !strings.Contains(errors, want) {
			t.Errorf("%s as a stranger ended with %d and lacks %q:\n%s", command, code, want, errors)
		}
	}
}

// impersonating returns a kubeconfig that acts as another user.
func impersonating(t *testing.T, kubeconfig, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate = user
	}
	file := t.TempDir() + "/" + user + ".kubeconfig"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
