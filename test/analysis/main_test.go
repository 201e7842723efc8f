// Package analysis plays the stories of users whose releases depend on metrics. It uses a real control plane, with a real
// Prometheus that scrapes a real exporter. The requests that the exporter counts are invented; the measurements of them
// are real.
package analysis

import (
	"os"
	"testing"

	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stopProvider()
	world.StopShared()
	os.Exit(code)
}
