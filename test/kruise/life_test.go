package kruise_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/kruise"
)

// parentVariable makes the test binary a parent that starts controllers for the kubeconfig in it, and waits to be killed.
const parentVariable = "KRUISE_TEST_PARENT"

func beParent(kubeconfig string) int {
	if _, err := kruise.Start(context.Background(), kubeconfig); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// Webhooks that do not answer show that the controllers are gone.
func TestTheyEndWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	crds := must(kruise.CRDs())(t)
	cluster := controlplane.ForTest(t, controlplane.Options{CRDs: []string{crds}})
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+cluster.Kubeconfig)
	stdout := must(parent.StdoutPipe())(t)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "started\n" {
		t.Fatalf("the parent said %q", line)
	}
	const object = `{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: shop}, spec: {
		selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: shop, image: "shop:1"}]}}}}`
	create := func() error {
		_, err := cluster.KubectlStdin(t.Context(), object, "create", "--dry-run=server", "-f", "-")
		return err
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), look, 3*time.Minute, true, func(context.Context) (bool, error) {
		err := create()
		return err != nil && strings.Contains(err.Error(), "connection refused"), nil
	})
	if err != nil {
		t.Error("they outlived their parent")
	}
}

func TestAWrongFlagIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs the binary, which -short leaves out")
	}
	binary := must(kruise.Binary())(t)
	for sentence, args := range map[string][]string{
		"name the cluster with --kubeconfig": {},
		`"up" is no flag`:                    {"--kubeconfig", "k", "up"},
		"read the kubeconfig":                {"--kubeconfig", "/nowhere"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), sentence) {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
