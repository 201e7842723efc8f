// Package scenario tells, one test each, what users live through with Sluice, on a real control plane.
package scenario

import (
	"os"
	"testing"

	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	code := m.Run()
	world.StopShared()
	os.Exit(code)
}
