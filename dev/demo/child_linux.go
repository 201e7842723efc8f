package main

import "syscall"

// childAttributes ends a child even when the demo is killed, unless keep is set.
func childAttributes(keep bool) *syscall.SysProcAttr {
	if keep {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
