package main

import (
	"maps"
	"slices"
)

// usage is what a process has used: seconds of CPU, and MiB of memory at the most and now.
type usage struct{ cpu, peak, resident float64 }

// Process is what one process used while something was measured.
type Process struct {
	Name string `json:"name"`
	// Ours says that it is part of the controller that is measured.
	Ours       bool    `json:"ours"`
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMiB    float64 `json:"peakMiB"`
	MiB        float64 `json:"MiB"`
}

// meter measures processes from its making to read.
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

// forgetPeaks makes peaks those from now on, and not those of whole lives.
func (m *meter) forgetPeaks() *meter {
	for _, pid := range m.pids {
		forgetPeak(pid)
	}
	return m
}

// read is what each process has used since, ours first, and what all processes of the machine have.
func (m *meter) read() (processes []Process, busy float64) {
	for _, name := range slices.Sorted(maps.Keys(m.pids)) {
		now, err := usageOf(m.pids[name])
		before, known := m.before[name]
		if err != nil || !known {
			continue // it has ended, or this system does not tell
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
