// Package matrix plays every event that a release can take on every strategy and workload. It is a test matrix: each
// cell is a short scenario on a real control plane, in its own namespace.
//
// A row is an [event] at a [moment], a column is a strategy on a kind of workload. Long stories belong elsewhere. With
// -matrix.kill, executors are killed while cells are played, which must change no cell.
//
// The one invariant of the package is the end of each cell. The Rollout has the phase of the row, and the workload runs
// the row's version. No object of Sluice is left, and executors that reconcile again write nothing. Exposure was never
// above the approved step.
package matrix

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/test/world"
)

// abreast is the number of cells played at a time, unless -parallel sets another. Cells mostly wait.
const abreast = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	if *manifestDir != "" {
		if err := writeManifests(*manifestDir); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", abreast); err != nil {
			panic(err)
		}
	}
	if *kill > 0 {
		world.ShareExecutor(tormented)
	}
	code := m.Run()
	stopStage()
	world.StopShared()
	os.Exit(code)
}

var kill = flag.Duration("matrix.kill", 0, "have executors as processes of their own, and kill one each time that so long has passed, or up to twice that")

// tormented runs executors and kills them again and again.
func tormented(w *world.World) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "sluice-event-")
	if err != nil {
		return nil, err
	}
	p, err := w.Program(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error {
		suffered, err := p.Torment(ctx, 1, *kill)
		fmt.Printf("executors were killed %d times and frozen %d times\n", suffered.Kills, suffered.Freezes)
		return err
	})
	return func() {
		cancel()
		if err := running.Wait(); err != nil {
			panic(err)
		}
		_ = os.RemoveAll(dir)
	}, nil
}
