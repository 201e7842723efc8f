//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock ensures that only one process at a time keeps its data in dir. The kernel releases the lock at any end of the process.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory for NATS: %w; name another one with --nats-dir", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another sluice run works in %s; stop that one, or name another directory with --nats-dir", dir)
	}
	return func() { _ = file.Close() }, nil
}
