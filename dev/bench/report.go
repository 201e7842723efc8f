package main

import (
	"runtime"
	"time"
)

// Report holds all results.
type Report struct {
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Command is the command line of the bench.
	Command  string `json:"command"`
	Steps    int    `json:"steps"`
	Replicas int    `json:"replicas"`
	// GraceSeconds is a fixed part of each release, between the last approval and Healthy.
	GraceSeconds int        `json:"graceSeconds"`
	External     bool       `json:"external"`
	Floor        *Floor     `json:"floor,omitempty"`
	FloorAtOnce  []FloorRun `json:"floorAtOnce,omitempty"`
	Runs         []Run      `json:"runs,omitempty"`
	Noisy        *Noisy     `json:"noisy,omitempty"`
	Idle         *Idle      `json:"idle,omitempty"`
	Fleet        *Fleet     `json:"fleet,omitempty"`
	Analyses     *Analyses  `json:"analyses,omitempty"`
	Scripts      []Script   `json:"scripts,omitempty"`
	Verdicts     []Verdict  `json:"verdicts"`
}

func newReport(o options) *Report {
	return &Report{Machine: describeMachine(), Cores: runtime.NumCPU(), Go: runtime.Version(), Began: time.Now().UTC(),
		Command: o.command, Steps: o.steps, Replicas: o.replicas, GraceSeconds: o.grace, External: o.external}
}

func (r *Report) empty() bool {
	return r.Floor == nil && r.Noisy == nil && r.Idle == nil && r.Fleet == nil && r.Analyses == nil && len(r.Runs) == 0 && len(r.FloorAtOnce) == 0 && len(r.Scripts) == 0
}

// Run is the result of parallel releases, or of repeated single releases.
type Run struct {
	Style string `json:"style"`
	// Releases is the number of parallel releases, and Repeat the number of sequential repetitions.
	Releases   int `json:"releases"`
	Repeat     int `json:"repeat"`
	Namespaces int `json:"namespaces"`
	Executors  int `json:"executors,omitempty"`

	ChangeToPause    Latency `json:"changeToFirstPause"`
	ApproveToPause   Latency `json:"approveToNextPause"`
	ApproveToHealthy Latency `json:"lastApproveToHealthy"`
	// Makespan is the time from the first change to the last healthy Rollout, in seconds, including the grace period.
	Makespan float64 `json:"makespanSeconds"`
	// Lost counts approvals that the API server accepted and a later write replaced. Refused counts approvals that got an error.
	Lost    int `json:"approvalsLost"`
	Refused int `json:"approvalsRefused"`

	Traffic       *Traffic  `json:"traffic,omitempty"`
	Processes     []Process `json:"processes,omitempty"`
	CPUPerRelease float64   `json:"cpuSecondsPerRelease"`
	// Busy is the used share of all cores by all programs on the machine, from 0 to 1.
	Busy float64 `json:"busy"`
	// Load is the load average of the last minute before the run began.
	Load float64 `json:"load"`
}

// Floor is the cost of a plain Deployment of one pod in the cluster itself.
type Floor struct {
	CreateToAvailable Latency `json:"createToAvailable"`
	// Requests is the number of requests by the cluster's own controllers for each such Deployment.
	Requests float64 `json:"requests"`
	Load     float64 `json:"load"`
}

// FloorRun is the result of parallel releases with minimal writes, without decisions.
type FloorRun struct {
	Style      string `json:"style"`
	Releases   int    `json:"releases"`
	Namespaces int    `json:"namespaces"`
	// Makespan is the time from the first change to the last end, in seconds; it includes no grace period.
	Makespan float64 `json:"makespanSeconds"`
	// Release is the duration of each release.
	Release Latency `json:"release"`
	// Traffic counts the writes as the writes of an executor.
	Traffic   *Traffic  `json:"traffic,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Busy      float64   `json:"busy"`
	Load      float64   `json:"load"`
}

// Idle is the result for many idle Rollouts.
type Idle struct {
	Rollouts int `json:"rollouts"`
	Replicas int `json:"replicas"`
	// Created is the time until all were healthy, in seconds.
	Created float64 `json:"createdSeconds"`
	// Start is the time from the restart of the parts until they sent no more requests.
	Start        float64   `json:"startSeconds"`
	StartTraffic *Traffic  `json:"startTraffic,omitempty"`
	AtStart      []Process `json:"atStart"`
	Seconds      float64   `json:"seconds"`
	Traffic      *Traffic  `json:"traffic,omitempty"`
	Processes    []Process `json:"processes"`
	Load         float64   `json:"load"`
}

// Noisy is the result for a tenant with few releases, alone and together with a tenant with many.
type Noisy struct {
	Quiet  int     `json:"quietReleases"`
	Noisy  int     `json:"noisyReleases"`
	Alone  Latency `json:"alone"`
	Beside Latency `json:"beside"`
	Load   float64 `json:"load"`
}

// Fleet is the result for a hub with two clusters.
type Fleet struct {
	// FirstAction is the time from sending the approval of a wave until the first write to the Rollout in the next wave's cluster.
	FirstAction Latency `json:"approvalToFirstAction"`
	AtOnce      int     `json:"atOnce"`
	// Ungoverned and Governed count the requests in a cluster for the same releases, each Repeat times, without the fleet and with it.
	Ungoverned *Traffic `json:"ungoverned,omitempty"`
	Governed   *Traffic `json:"governed,omitempty"`
	Repeat     int      `json:"repeat"`
	Load       float64  `json:"load"`
}

// Script is the cost of one call of a built-in script, as Sluice makes it and as users of the stock engine do.
type Script struct {
	Name   string `json:"name"`
	Sluice Cost   `json:"sluice"`
	Stock  Cost   `json:"stock"`
}

// Cost is the cost of one call.
type Cost struct {
	Microseconds float64 `json:"microseconds"`
	KB           float64 `json:"kB"`
	Allocations  float64 `json:"allocations"`
}
