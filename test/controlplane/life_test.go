package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/test/controlplane"
)

// parentVariable makes the test binary a parent that starts a cluster in the directory it names,
// prints its kubeconfig, and waits to be killed.
const parentVariable = "CONTROLPLANE_TEST_PARENT_OF"

func TestMain(m *testing.M) {
	dir := os.Getenv(parentVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	c, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Kubeconfig)
	select {}
}

func TestTwoClustersDoNotClashAndEndWithStop(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	one := controlplane.ForTest(t, controlplane.Options{Dir: dirs[0], Nodes: 1})
	other := controlplane.ForTest(t, controlplane.Options{Dir: dirs[1], Nodes: 1})
	kubectl(t, one, "", "create", "namespace", "only-here")
	if _, err := other.Kubectl(t.Context(), "get", "namespace", "only-here"); err == nil {
		t.Error("two clusters share a namespace")
	}
	for i, c := range []*controlplane.Cluster{one, other} {
		if found := processes(t, dirs[i]); len(found) < 5 {
			t.Fatalf("only %d processes name the directory of a running cluster: %v", len(found), found)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if left := processes(t, dirs[i]); len(left) > 0 {
			t.Errorf("processes are left after Stop: %v", left)
		}
	}
}

func TestNothingIsLeftWhenTheParentIsKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if want := filepath.Join(dir, "kubeconfig"); strings.TrimSpace(line) != want {
		t.Fatalf("the parent printed %q, not %q", line, want)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitNoProcess(t, dir)
}

func TestAComponentThatDiesEndsTheClusterAndNamesItself(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	dir := t.TempDir()
	c, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range processes(t, dir) {
		if fields := strings.Fields(line); strings.Contains(line, "component kube-scheduler") {
			if out, err := exec.Command("kill", "-KILL", fields[0]).CombinedOutput(); err != nil {
				t.Fatalf("kill the scheduler: %v: %s", err, out)
			}
		}
	}
	awaitNoProcess(t, dir)
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "kube-scheduler ended by itself") {
		t.Errorf("Stop returned %v, which does not name the scheduler", err)
	}
}

// processes returns the ids and command lines of the running processes that name the directory.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatalf("list the processes: %v", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sluice-cluster") && strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// awaitNoProcess waits for the end of processes that are not children of the test. It polls the list of processes.
func awaitNoProcess(t *testing.T, dir string) {
	t.Helper()
	deadline := time.After(10 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := processes(t, dir)
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("processes are left: %v", left)
		}
	}
}
