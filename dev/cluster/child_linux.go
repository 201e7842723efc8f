package main

import "syscall"

// dieWithParent makes the kernel end a child even if the child hangs and never reads its lifeline.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
