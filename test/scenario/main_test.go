// Package scenario plays the stories of users of Sluice, one for each test, on a real control plane.
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
