// Package turn plays every turn that a release can take on every strategy and workload: a grid of which each cell is a short
// scenario of its own on a real control plane, in a namespace of its own.
//
// A row is a [turn] at a [moment], a column a strategy on a kind of workload. It is no place for long stories or for faults of
// our own processes. Its one invariant is how each cell ends: the Rollout is where the row says, the workload runs what it
// says, nothing of ours is left over, further looks write nothing, and exposure was never above what was approved.
package turn

import (
	"flag"
	"os"
	"testing"

	"sluice.dev/sluice/test/world"
)

// abreast is how many cells are played at a time unless -parallel says otherwise: they mostly wait.
const abreast = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", abreast); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	stopStage()
	world.StopShared()
	os.Exit(code)
}
