//go:build !linux

package main

import "syscall"

// dieWithParent leaves a child to its lifeline: only Linux can tie it to its parent in the kernel.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
