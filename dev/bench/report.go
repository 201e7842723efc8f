package main

import (
	"runtime"
	"time"
)

// Report is all that was measured.
type Report struct {
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Command is how it was started.
	Command  string `json:"command"`
	Steps    int    `json:"steps"`
	Replicas int    `json:"replicas"`
	// GraceSeconds is spent once in each release, between the last approval and Healthy.
	GraceSeconds int        `json:"graceSeconds"`
	External     bool       `json:"external"`
	Floor        *Floor     `json:"floor,omitempty"`
	FloorAtOnce  []FloorRun `json:"floorAtOnce,omitempty"`
	Runs         []Run      `json:"runs,omitempty"`
	Noisy        *Noisy     `json:"noisy,omitempty"`
	Idle         *Idle      `json:"idle,omitempty"`
	Analyses     *Analyses  `json:"analyses,omitempty"`
	Scripts      []Script   `json:"scripts,omitempty"`
	Verdicts     []Verdict  `json:"verdicts"`
}

func newReport(o options) *Report {
	return &Report{Machine: describeMachine(), Cores: runtime.NumCPU(), Go: runtime.Version(), Began: time.Now().UTC(),
		Command: o.command, Steps: o.steps, Replicas: o.replicas, GraceSeconds: o.grace, External: o.external}
}

func (r *Report) empty() bool {
	return r.Floor == nil && r.Noisy == nil && r.Idle == nil && r.Analyses == nil && len(r.Runs) == 0 && len(r.FloorAtOnce) == 0 && len(r.Scripts) == 0
}

// Run is a number of releases at once, or one release alone, repeated.
type Run struct {
	Style string `json:"style"`
	// Releases is how many were under way at once, Repeat how often that was done one after the other.
	Releases   int `json:"releases"`
	Repeat     int `json:"repeat"`
	Namespaces int `json:"namespaces"`
	Executors  int `json:"executors,omitempty"`

	ChangeToPause    Latency `json:"changeToFirstPause"`
	ApproveToPause   Latency `json:"approveToNextPause"`
	ApproveToHealthy Latency `json:"lastApproveToHealthy"`
	// Makespan is from the first change to the last Rollout healthy, in seconds, grace period included.
	Makespan float64 `json:"makespanSeconds"`
	// Lost counts approvals that were accepted and then written over, Refused those that were answered with an error.
	Lost    int `json:"approvalsLost"`
	Refused int `json:"approvalsRefused"`

	Traffic       *Traffic  `json:"traffic,omitempty"`
	Processes     []Process `json:"processes,omitempty"`
	CPUPerRelease float64   `json:"cpuSecondsPerRelease"`
	// Busy is how much of all cores was used by whatever runs on the machine, from 0 to 1.
	Busy float64 `json:"busy"`
	// Load is the load average of the last minute before it began.
	Load float64 `json:"load"`
}

// Floor is what the cluster itself takes for a plain Deployment of one pod.
type Floor struct {
	CreateToAvailable Latency `json:"createToAvailable"`
	// Requests by the cluster's own controllers for each such Deployment.
	Requests float64 `json:"requests"`
	Load     float64 `json:"load"`
}

// FloorRun is a number of releases at once that are made of the least writes, with nobody who decides.
type FloorRun struct {
	Style      string `json:"style"`
	Releases   int    `json:"releases"`
	Namespaces int    `json:"namespaces"`
	// Makespan is from the first change to the last end, in seconds; there is no grace period in it.
	Makespan float64 `json:"makespanSeconds"`
	// Release is how long each took.
	Release Latency `json:"release"`
	// Traffic counts the writes as those of an executor.
	Traffic   *Traffic  `json:"traffic,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Busy      float64   `json:"busy"`
	Load      float64   `json:"load"`
}

// Idle is many Rollouts at rest.
type Idle struct {
	Rollouts int `json:"rollouts"`
	Replicas int `json:"replicas"`
	// Created is how long it took until all were healthy, in seconds.
	Created float64 `json:"createdSeconds"`
	// Start is how long parts that were started anew took until they asked for nothing more.
	Start        float64   `json:"startSeconds"`
	StartTraffic *Traffic  `json:"startTraffic,omitempty"`
	AtStart      []Process `json:"atStart"`
	Seconds      float64   `json:"seconds"`
	Traffic      *Traffic  `json:"traffic,omitempty"`
	Processes    []Process `json:"processes"`
	Load         float64   `json:"load"`
}

// Noisy is a tenant with few releases, alone and beside one with many.
type Noisy struct {
	Quiet  int     `json:"quietReleases"`
	Noisy  int     `json:"noisyReleases"`
	Alone  Latency `json:"alone"`
	Beside Latency `json:"beside"`
	Load   float64 `json:"load"`
}

// Script is the cost of one call of a built-in script, ours and made the stock way.
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
