// Package matrix plays every event that a release can take on every strategy and workload: a test matrix of which each cell is a short
// scenario of its own on a real control plane, in a namespace of its own.
//
// A row is a [event] at a [moment], a column a strategy on a kind of workload. It is no place for long stories; with -matrix.kill
// executors are killed while cells are played, which must change none of them. Its one invariant is how each cell ends: the Rollout is where the row says, the workload runs what it
// says, nothing of ours is left over, further looks write nothing, and exposure was never above what was approved.
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

// abreast is how many cells are played at a time unless -parallel says otherwise: they mostly wait.
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

// tormented runs executors that are killed again and again.
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
