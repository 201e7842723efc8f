// Package natsdir gives tests directories for NATS servers that run in the test's own process.
package natsdir

import (
	"os"
	"testing"
	"time"
)

// ForTest returns a directory like t.TempDir. Its removal also succeeds if a server writes after its end. Call it
// before the start of the server, so that the server is closed before the removal.
func ForTest(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-nats-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

const (
	removeWait  = 10 * time.Second
	removePause = 20 * time.Millisecond
)

// Remove removes a directory with the directory of a closed server in it, and all its files. A server that shuts down
// waits 0.1 s for the states of its consumers. On a busy machine it may still write a file after that, so one removal
// may not be enough. The error is the error of the last attempt, after 10 s.
func Remove(dir string) error {
	for end := time.Now().Add(removeWait); ; time.Sleep(removePause) {
		if err := os.RemoveAll(dir); err == nil || time.Now().After(end) {
			return err
		}
	}
}
