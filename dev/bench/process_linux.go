package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes make the kernel end a child after any end of this process.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// ticksPerSecond is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// usageOf reads the resource usage of a process so far.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	// The name in parentheses may contain any characters; the fields after it are fixed.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const userTime, systemTime = 11, 12
	user, err1 := strconv.ParseFloat(fields[userTime], 64)
	system, err2 := strconv.ParseFloat(fields[systemTime], 64)
	if err1 != nil || err2 != nil {
		return usage{}, fmt.Errorf("read the CPU time of process %d from %q", pid, stat)
	}
	u := usage{cpu: (user + system) / ticksPerSecond}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	u.peak, u.resident = kilobytes(status, "VmHWM:")/1024, kilobytes(status, "VmRSS:")/1024
	return u, nil
}

func kilobytes(status []byte, key string) float64 {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return n
		}
	}
	return 0
}

// forgetPeak makes the kernel reset the memory peak of a process. Without the permission, the peak remains the maximum of its whole life.
func forgetPeak(pid int) { _ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) }

// componentsOf finds the processes of a control plane by their parent, with the names of the components.
func componentsOf(parent int) map[string]int {
	found := map[string]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if words := strings.Split(string(command), "\x00"); len(words) > 2 {
			found[words[2]] = pid
		}
	}
	return found
}

// machineBusy returns the CPU seconds of all processes of the machine since its start.
func machineBusy() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	sum := 0.0
	const idle, waiting = 3, 4
	for i, field := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseFloat(field, 64)
		if i != idle && i != waiting && i < 8 {
			sum += n
		}
	}
	return sum / ticksPerSecond
}

// loadAverage returns the average number of processes that wanted a CPU within the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	word, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(word, 64)
	return n
}

func describeMachine() string {
	model := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	memory, _ := os.ReadFile("/proc/meminfo")
	return fmt.Sprintf("%s, %.0f GB", model, kilobytes(memory, "MemTotal:")/(1<<20))
}
