package helm

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// older reports whether the control planes are of the oldest version of Kubernetes.
func older() bool { return os.Getenv("SLUICE_KUBERNETES") != "" }

// cluster returns a control plane with the definitions of Sluice and of all kinds in the chart.
func cluster(t *testing.T) *controlplane.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	definitions := []string{filepath.Join(world.Root(), "deploy", "crds")}
	kinds := []string{"prometheus-operator", "cert-manager", "keda"}
	if !older() {
		kinds = append(kinds, "gateway-api") // whose newest definitions are for newer API servers
	}
	for _, name := range kinds {
		definitions = append(definitions, filepath.Join(world.Root(), "bin", "crds", name+".yaml"))
	}
	return controlplane.ForTest(t, controlplane.Options{CRDs: definitions})
}

// Both versions of Helm render the same objects from each file of values, and the API server takes every object. An API server that does not serve the
// policies gets the webhook.
func TestTheAPIServerTakesWhatFilesOfValuesMake(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	const namespace = "progressive"
	if _, err := c.Kubectl(t.Context(), "create", "namespace", namespace); err != nil {
		t.Fatal(err)
	}
	var more []string
	if older() {
		more = []string{"--set", "admission=webhook", "--kube-version", "1.30"}
	}
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("there are %d files, %v", len(files), err)
	}
	seen := map[string]string{}
	for _, file := range files {
		if older() && strings.Contains(file, "http-route") {
			continue
		}
		args := append([]string{"-f", file}, more...)
		if name := filepath.Base(file); name != "default.yaml" && !strings.HasPrefix(name, "crds") {
			args = append(args, "--set", "crds.install=false") // they are most of the text
		}
		rendered := render(t, commands[0], namespace, args...)
		if diff := cmp.Diff(rendered, render(t, commands[1], namespace, args...)); diff != "" {
			t.Errorf("%s (-%s +%s):\n%s", file, commands[0], commands[1], diff)
		}
		var stream strings.Builder
		for _, name := range slices.Sorted(maps.Keys(rendered)) {
			text, err := yaml.Marshal(rendered[name])
			if err != nil {
				t.Fatal(err)
			}
			if seen[name+string(text)] == "" { // most objects are the same in most files
				stream.WriteString("---\n" + string(text))
			}
			seen[name+string(text)] = file
		}
		if stream.Len() == 0 {
			continue
		}
		if out, err := c.KubectlStdin(t.Context(), stream.String(), "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-"); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// Helm takes over an installation of kubectl. The watchers have filled in the Secret and the authority of the webhook, and an upgrade keeps both.
func TestHelmTakesOverAnInstallationAndKeepsItsCertificates(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	do := func(args ...string) string {
		out, err := c.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, command := range commands {
		home := t.TempDir()
		run := func(args ...string) {
			if _, err := helm(t.Context(), command, home, c.Kubeconfig, append(args, "-n", command)...); err != nil {
				t.Fatal(err)
			}
		}
		in := api.DefaultInstallation()
		in.Namespace = command
		printed, err := deploy.Manifests(in, "namespace", "policies", "rbac", "parts", "webhook")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.KubectlStdin(t.Context(), string(printed), "apply", "--server-side", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		var force []string
		if command == "helm4" { // it applies on the server, where kubectl owns the fields
			force = []string{"--force-conflicts"}
		}
		run(append([]string{"install", "sluice", chart(), "--set", "admission=both,crds.install=false", "--take-ownership"}, force...)...)
		do("patch", "-n", command, "secret/sluice-webhook", "--type=merge", "--field-manager=sluice", "-p", `{"data":{"ca.crt":"a2VwdA=="}}`)
		for at := range 2 {
			do("patch", "mutatingwebhookconfiguration/sluice-hold", "--type=json", "--field-manager=sluice", "-p",
				fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":%q}]`, at, base64.StdEncoding.EncodeToString([]byte(authority(t)))))
		}
		state := func() string {
			return do("get", "-n", command, "secret/sluice-webhook", "-o", "jsonpath={.data}") +
				do("get", "mutatingwebhookconfiguration/sluice-hold", "-o", "jsonpath={.webhooks[*].clientConfig}")
		}
		before := state()
		run(append([]string{"upgrade", "sluice", chart(), "--reuse-values", "--set", "watcher.replicas=3,webhook.annotations.a=b"}, force...)...)
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s (-before +after the upgrade):\n%s", command, diff)
		}
		run("uninstall", "sluice")
	}
}

// authority returns a certificate that the API server takes as an authority.
func authority(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(certificateFiles(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The programs take the arguments that each file of values makes.
func TestTheProgramsTakeTheArgumentsOfTheChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd/watcher", "./cmd/executor", "./cmd/analyzer")
	build.Dir = world.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tried := map[string]bool{}
	for _, file := range files {
		for name, o := range render(t, commands[0], "progressive", "-f", file, "--set", "crds.install=false") {
			program, ok := strings.CutPrefix(name, "Deployment/progressive/sluice-")
			if !ok {
				continue
			}
			args, _, err := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
			if err != nil || len(args) != 1 {
				t.Fatalf("%s makes %v, %v", file, args, err)
			}
			words, _, err := unstructured.NestedStringSlice(args[0].(map[string]any), "args")
			if err != nil {
				t.Fatal(err)
			}
			line := program + " " + strings.Join(words, " ")
			if tried[line] {
				continue
			}
			tried[line] = true
			// A program refuses a wrong flag or value before it prints its help.
			if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), append(words, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", file, line, err, out)
			}
		}
	}
	if len(tried) < 10 {
		t.Errorf("only %d command lines were tried", len(tried))
	}
}
