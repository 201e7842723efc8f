// Package natsdir gives tests directories for NATS servers that run in the test's own process.
package natsdir

import (
	"os"
	"testing"

	"sluice.dev/sluice/pkg/queue/embedded"
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
		if err := embedded.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
