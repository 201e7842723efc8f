package main

import "syscall"

// childAttributes let a child outlive the demo only if it is to be kept: otherwise it ends even when the demo is killed.
func childAttributes(keep bool) *syscall.SysProcAttr {
	if keep {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
