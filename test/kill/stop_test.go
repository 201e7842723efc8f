package kill

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// tooLong is for how long an executor is stopped: its lease runs out after six seconds, and what it had taken is then delivered to the
// other one.
const tooLong = 8 * time.Second

// stops is how often one is stopped.
const stops = 4

// An executor that was stopped so long that another one took over its work wakes up in the middle of what it was about to write.
// That must do no harm.
func TestAnExecutorThatWakesUpAfterItsLeaseIsGoneDoesNoHarm(t *testing.T) {
	ctx, w, p, f := begin(t, 4, 5)
	pair := []*process{p.start(t), p.start(t)}
	f.follow(ctx, ready)

	var stopping sync.WaitGroup
	stopping.Go(func() { stopInTurns(t, pair, 2) })
	f.change(ctx, "app:2")
	f.follow(ctx, finished(1))
	f.change(ctx, "app:3")
	f.follow(ctx, finished(2))
	stopping.Wait()
	for _, x := range pair {
		x.kill(t)
	}
	p.noneLeft(t)

	f.lawful(w)
	f.nothingLeft(ctx)
}

// stopInTurns stops one executor after the other for too long, each at some moment of its work.
func stopInTurns(t *testing.T, pair []*process, seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed))
	for turn := range stops {
		<-time.After(time.Duration(300+random.IntN(1000)) * time.Millisecond)
		pair[turn%len(pair)].freeze(t, time.After(tooLong))
	}
}
