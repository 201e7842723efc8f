package kill

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/test/world"
)

// tooLong is the time for which an executor is stopped. Its lease expires after six seconds, and NATS then delivers its
// hints to the other one.
const tooLong = 8 * time.Second

// stops is the number of times that an executor is stopped.
const stops = 4

// An executor is stopped for so long that another one takes over its work. It wakes up in the middle of a write, which
// must do no harm.
func TestAnExecutorThatWakesUpAfterItsLeaseIsGoneDoesNoHarm(t *testing.T) {
	ctx, w, p, f := begin(t, 4, 5)
	pair := []*world.Process{start(t, p), start(t, p)}
	f.follow(ctx, ready)

	var stopping errgroup.Group
	stopping.Go(func() error { return stopInTurns(pair, 2) })
	f.change(ctx, "app:2")
	f.follow(ctx, finished(1))
	f.change(ctx, "app:3")
	f.follow(ctx, finished(2))
	if err := stopping.Wait(); err != nil {
		t.Error(err)
	}
	for _, x := range pair {
		if err := x.Kill(); err != nil {
			t.Error(err)
		}
	}
	noneLeft(t, p)

	f.lawful(w)
	f.nothingLeft(ctx)
}

// start starts an executor and stops it at the end of the test, also after a failure.
func start(t *testing.T, p world.Program) *world.Process {
	t.Helper()
	x, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = x.Kill()
		}
	})
	return x
}

// stopInTurns stops one executor after the other for too long, each at some moment of its work.
func stopInTurns(pair []*world.Process, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, seed))
	for turn := range stops {
		<-time.After(time.Duration(300+random.IntN(1000)) * time.Millisecond)
		if err := pair[turn%len(pair)].Freeze(time.After(tooLong)); err != nil {
			return err
		}
	}
	return nil
}
