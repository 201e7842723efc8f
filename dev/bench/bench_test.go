package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// small returns the options of a bench with few releases.
func small(t *testing.T, args ...string) options {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	o, err := parse(append([]string{"--releases", "2", "--executors", "2", "--repeat", "1", "--style", "canary", "--grace", "0", "--steps", "2", "--idle", "3", "--idle-window", "1s",
		"--analyses", "3", "--analysis-interval", "1s", "--analysis-window", "2s"}, args...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// wantRuns checks that each style has a run of one release alone and a run of two releases.
func wantRuns(t *testing.T, runs []Run, styles ...string) {
	t.Helper()
	if len(runs) != 2*len(styles) {
		t.Fatalf("there are %d runs, want one alone and one of two of each of %q", len(runs), styles)
	}
	for i, r := range runs {
		if r.Style != styles[i/2] {
			t.Errorf("run %d is of style %s, want %s", i, r.Style, styles[i/2])
		}
		wantRun(t, r, 1+i%2)
	}
}

// wantRun checks that a run has measured the facts of any two releases with two steps.
func wantRun(t *testing.T, r Run, releases int) {
	t.Helper()
	each := func(l Latency, n int) bool { return l.N == n && l.P50 > 0 && l.P50 <= l.P99 && l.P99 <= l.Max }
	if r.Releases != releases || !each(r.ChangeToPause, releases) || !each(r.ApproveToPause, releases) || !each(r.ApproveToHealthy, releases) || r.Makespan <= 0 {
		t.Errorf("the run is not whole: %+v", r)
	}
	if r.Traffic == nil || r.Traffic.Writes < 5*releases {
		t.Errorf("requests were not counted: %+v", r.Traffic)
	}
}

// wantFloors checks that two releases with two steps had the minimal number of writes. These are 6 of the status, 3 of the VirtualService, and 2 of each
// Service. Canary style has 1 write of the Deployment, and 3 of its canary. Partition style has 8 writes of the Deployment, 3 of them in each step.
func wantFloors(t *testing.T, floors []FloorRun) {
	t.Helper()
	writes := map[string]int{}
	for _, f := range floors {
		if f.Release.N != 2 || f.Makespan <= 0 || f.Traffic == nil || f.Traffic.Reads+f.Traffic.Events+f.Traffic.PodLabels+len(f.Traffic.Refused) > 0 || f.Traffic.Native == 0 {
			t.Errorf("the floor of two at once was not measured, or asked for something else: %+v", f)
			continue
		}
		writes[f.Style] = f.Traffic.Writes / 2
	}
	if diff := cmp.Diff(map[string]int{styleCanary: 17, stylePartition: 20}, writes); diff != "" {
		t.Errorf("writes of the least releases (-want +got):\n%s", diff)
	}
}

func TestABenchMeasuresEverythingAndLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := small(t, "--measure", "floor,alone,many,noisy,idle,fleet,analysis", "--style", "canary,partition,blue-green")
	report, err := measure(bounded(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Floor == nil || report.Floor.CreateToAvailable.N != 1 || report.Floor.Requests < 3 {
		t.Errorf("the floor was not measured: %+v", report.Floor)
	}
	wantFloors(t, report.FloorAtOnce)
	wantRuns(t, report.Runs, styleCanary, stylePartition, styleBlueGreen)
	if i := report.Idle; i == nil || i.Rollouts != 3 || i.Traffic == nil || i.Seconds < 1 {
		t.Errorf("the rest was not measured: %+v", report.Idle)
	}
	if report.Noisy == nil || report.Noisy.Beside.N == 0 {
		t.Errorf("two tenants were not measured: %+v", report.Noisy)
	}
	if f := report.Fleet; f == nil || f.FirstAction.N != approvalsAtOnce || f.Ungoverned.Writes == 0 || f.Governed.Writes <= f.Ungoverned.Writes {
		t.Errorf("the fleet was not measured: %+v", f)
	}
	if a := report.Analyses; a == nil || a.Late.N < 3 || a.Odd > 0 || a.PerSecond <= 0 || a.Traffic == nil {
		t.Errorf("analyses were not measured: %+v", report.Analyses)
	}
	if names := namesOf(report.Runs[1].Processes); len(names) > 0 && !slices.Equal(names, []string{"analyzer", "executor-1", "executor-2", "watcher"}) {
		t.Errorf("our processes are %q", names)
	}
	if children := componentsOf(os.Getpid()); len(children) > 0 {
		t.Errorf("processes are left: %v", children)
	}
	if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v, %v", files, err)
	}
}

func namesOf(processes []Process) (names []string) {
	for _, p := range processes {
		if p.Ours {
			names = append(names, p.Name)
		}
	}
	return names
}

// The second copy of Sluice stands for any controller that serves the API: the bench starts nothing and cleans up.
func TestAnExternalControllerIsDrivenAndItsClusterIsLeftAsItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	w := world.ForTest(t, world.Options{})
	o := small(t, "--external", "--kubeconfig", w.Kubeconfig, "--audit-log", w.AuditLog, "--measure", "floor,alone,many", "--style", "partition")
	report, err := measure(bounded(t), o)
	if err != nil {
		t.Fatal(err)
	}
	wantRuns(t, report.Runs, stylePartition)
	client, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range namespaces.Items {
		if !slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease", api.DefaultNamespace, api.ScriptNamespace}, n.Name) {
			t.Errorf("namespace %s is left", n.Name)
		}
	}
}
