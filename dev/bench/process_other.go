//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return nil }

// CPU and memory are measured on Linux only; elsewhere their columns are empty.
func usageOf(int) (usage, error)      { return usage{}, errors.ErrUnsupported }
func forgetPeak(int)                  {}
func componentsOf(int) map[string]int { return nil }
func machineBusy() float64            { return 0 }
func loadAverage() float64            { return 0 }
func describeMachine() string         { return "unknown processor" }
