package main

import (
	"maps"
	"slices"
)

// usage is the resource usage of a process: seconds of CPU, and the maximum and current MiB of memory.
type usage struct{ cpu, peak, resident float64 }

// Process is the usage of one process during a measurement.
type Process struct {
	Name string `json:"name"`
	// Ours means that the process belongs to the measured controller.
	Ours       bool    `json:"ours"`
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMiB    float64 `json:"peakMiB"`
	MiB        float64 `json:"MiB"`
}

// meter measures processes from its creation until read.
type meter struct {
	pids   map[string]int
	ours   map[string]bool
	before map[string]usage
	busy   float64
}

func newMeter(ours, others map[string]int) *meter {
	m := &meter{pids: maps.Clone(others), ours: map[string]bool{}, before: map[string]usage{}, busy: machineBusy()}
	if m.pids == nil {
		m.pids = map[string]int{}
	}
	for name, pid := range ours {
		m.pids[name], m.ours[name] = pid, true
	}
	for name, pid := range m.pids {
		if u, err := usageOf(pid); err == nil {
			m.before[name] = u
		}
	}
	return m
}

// forgetPeaks resets the memory peaks of the processes.
func (m *meter) forgetPeaks() *meter {
	for _, pid := range m.pids {
		forgetPeak(pid)
	}
	return m
}

// read returns the usage of each process since the creation of the meter, ours first, and the usage of all processes of the machine.
func (m *meter) read() (processes []Process, busy float64) {
	for _, name := range slices.Sorted(maps.Keys(m.pids)) {
		now, err := usageOf(m.pids[name])
		before, known := m.before[name]
		if err != nil || !known {
			continue // it has ended, or this system does not report it
		}
		processes = append(processes, Process{Name: name, Ours: m.ours[name], CPUSeconds: now.cpu - before.cpu, PeakMiB: now.peak, MiB: now.resident})
	}
	slices.SortStableFunc(processes, func(a, b Process) int {
		switch {
		case a.Ours == b.Ours:
			return 0
		case a.Ours:
			return -1
		}
		return 1
	})
	return processes, machineBusy() - m.busy
}
