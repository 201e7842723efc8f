package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

func aReport() *Report {
	l := Latency{N: 20, P50: 101, P90: 150, P99: 180, Max: 181}
	traffic := func() *Traffic {
		return &Traffic{Reads: 620, Writes: 240, Events: 20, PodLabels: 40, Native: 2000, Driver: 80, Refused: map[int]int{404: 3, 409: 1},
			Requests: []Requests{{Verb: "get", Resource: "rollouts", By: "sluice-executor", Count: 620}}}
	}
	processes := []Process{{"executor-1", true, 0.5, 40, 39}, {"watcher", true, 0.25, 160, 50}, {"kube-apiserver", false, 12, 900, 900}}
	r := &Report{Machine: "a machine", Cores: 2, Go: "go1.26", Began: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Seconds: 61, Command: "bench --full", Steps: 3,
		Replicas: 2, GraceSeconds: 3, Floor: &Floor{CreateToAvailable: l, Requests: 14.6, Load: 1},
		FloorAtOnce: []FloorRun{{Style: styleCanary, Releases: 100, Namespaces: 10, Makespan: 9.5, Release: l, Traffic: traffic(), Processes: processes[2:], Busy: 0.99, Load: 1}},
		Runs: []Run{
			{Style: styleCanary, Releases: 1, Repeat: 20, Namespaces: 1, Executors: 1, ChangeToPause: l, ApproveToPause: l,
				ApproveToHealthy: Latency{20, 3100, 3200, 3300, 3300}, Makespan: 3.5, Traffic: traffic(), Processes: processes, CPUPerRelease: 0.0375, Busy: 0.2, Load: 0.5},
			{Style: stylePartition, Releases: 100, Repeat: 1, Namespaces: 10, Executors: 2, Makespan: 11, Lost: 1, Busy: 1, Load: 2},
		},
		Noisy:   &Noisy{Quiet: 5, Noisy: 100, Alone: l, Beside: Latency{20, 200, 300, 720, 800}, Load: 2},
		Idle:    &Idle{Rollouts: 1000, Created: 30, Start: 4, AtStart: processes, StartTraffic: traffic(), Seconds: 60, Traffic: traffic(), Processes: processes[:2], Load: 1},
		Fleet:   &Fleet{FirstAction: l, AtOnce: 5, Ungoverned: traffic(), Governed: traffic(), Repeat: 20, Load: 1},
		Scripts: []Script{{"VirtualService", Cost{50, 30, 400}, Cost{1560, 425, 4356}}},
	}
	r.judge()
	return r
}

func TestTheTableShowsEveryFigureAndEveryBudget(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := writeTable(&got, aReport()); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/table.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}

func TestAReportInJSONReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	want := aReport()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := new(Report)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the report differs (-want +got):\n%s", diff)
	}
}
