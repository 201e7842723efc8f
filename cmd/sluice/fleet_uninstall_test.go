package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// uninstall types the commands of docs/installing.md that end a hub, and that let its members go on without a fleet.
func (f fleetOfOne) uninstall() {
	f.Helper()
	f.types("kubectl delete fleetrollouts -A --all", "")
	f.Do(f.T, "wait", "fleettargets", "-n", "shop", "--all", "--for=delete", fleetLimit) // the garbage collector deletes them
	if left := f.Do(f.T, "get", "fleetrollouts,fleettargets", "-A", "-o", "name"); left != "" {
		f.Errorf("the hub still has %s", left)
	}
	f.types(`kubectl patch rollout NAME -n NAMESPACE --type=merge -p '{"spec":{"fleet":null}}'`, "checkout")
	app := strings.ReplaceAll(fleetApp, "VERSION", "v4")
	f.Apply(f.T, "shop", strings.ReplaceAll(app, "  fleet: {namespace: shop, name: checkout}\n", ""))
	f.Await(f.T, "shop", "checkout", func(r *api.Rollout) bool {
		return world.Healthy(r) && r.Status.ObservedGeneration == r.Generation && r.Status.Fleet == nil
	})
	f.Do(f.T, "wait", "deployment/checkout", "-n", "shop", "--for=jsonpath={.status.updatedReplicas}=2", fleetLimit)
}

// types runs a command line of docs/installing.md in a shell, with the name of a Rollout.
func (f fleetOfOne) types(line, rollout string) {
	f.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "installing.md"))
	if err != nil {
		f.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+line) {
		f.Fatalf("the page does not have the command %s", line)
	}
	binary, err := controlplane.Binary() // kubectl is in the same directory
	if err != nil {
		f.Fatal(err)
	}
	shell := exec.CommandContext(f.Context(), "sh", "-c", strings.NewReplacer("NAMESPACE", "shop", "NAME", rollout).Replace(line))
	shell.Env = []string{"HOME=" + f.TempDir(), "KUBECONFIG=" + f.Kubeconfig, "PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + os.Getenv("PATH")}
	if out, err := shell.CombinedOutput(); err != nil {
		f.Fatalf("%s: %v\n%s", line, err, out)
	}
}
