//go:build !linux

package main

import "syscall"

// dieWithParent has no effect: only the kernel of Linux can end a child with its parent, so the lifeline ends the child.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
