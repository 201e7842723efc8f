//go:build !linux

package main

import "syscall"

// childAttributes let a child outlive the demo if it is to be kept. Where the system cannot tie a child to its parent, it also
// outlives a demo that is killed with -9.
func childAttributes(keep bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: keep} }
