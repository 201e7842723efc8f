// Package natsdir gives tests directories for NATS servers that run in the test's own process.
package natsdir

import (
	"os"
	"testing"
	"time"
)

// ForTest is a directory as t.TempDir makes it, whose removal outlasts what a server writes after its end. It is asked for before
// the server is started, so that the server has been closed when it is removed.
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

// Remove removes a directory which has that of a closed server in it, and all that is there. A server that is shut down waits 0.1 s
// for its consumers' states to be written: on a busy machine a file may still come after that, so that one removal is not enough.
// The error is that of the last attempt, after 10 s.
func Remove(dir string) error {
	for end := time.Now().Add(removeWait); ; time.Sleep(removePause) {
		if err := os.RemoveAll(dir); err == nil || time.Now().After(end) {
			return err
		}
	}
}
