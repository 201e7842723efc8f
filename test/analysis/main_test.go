// Package analysis tells what users live through with releases that metrics decide about: on a real control plane, with a real
// Prometheus that scrapes a real exporter. The requests that the exporter counts are made up here; what is measured of them is not.
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
