package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/queue"
)

// A process that holds many deliveries must leave work to the others.
func TestProcessesShareAFlood(t *testing.T) {
	w := aWorld(t)
	hints := w.connect()
	const keys, processes = 300, 3
	var runs [processes]atomic.Int32
	for i := range processes {
		w.consume(w.connect(), "c", 4, func(ctx context.Context, _ queue.Key) queue.Result {
			runs[i].Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond): // as real work takes
			}
			return queue.Result{}
		})
	}
	w.until("all of them ask for work", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamWork, "executor-c")
		if err == nil && c.CachedInfo().NumWaiting != processes {
			err = fmt.Errorf("%d do", c.CachedInfo().NumWaiting)
		}
		return err
	})
	for i := range keys {
		w.hint(hints, named(fmt.Sprintf("x%d", i)))
	}
	w.settled()
	for i := range processes {
		if n := runs[i].Load(); n < keys/processes/2 {
			t.Errorf("process %d of %d ran %d of %d keys", i+1, processes, n, keys)
		}
	}
}

// All workers of a process hang. The other deliveries that it holds are not lost: a process with free workers gets
// them.
func TestAProcessThatJoinsLateGetsItsShare(t *testing.T) {
	w := aWorld(t)
	hints := w.connect()
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	w.consume(w.connect(), "c", 2, func(context.Context, queue.Key) queue.Result {
		begun <- struct{}{}
		<-goOn
		return queue.Result{}
	})
	const keys = 40
	for i := range keys {
		w.hint(hints, named(fmt.Sprintf("x%d", i)))
	}
	receive(w, "run", begun)
	receive(w, "run", begun)
	w.until("the first process holds everything", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamWork, "executor-c")
		if err == nil && c.CachedInfo().NumAckPending != keys {
			err = fmt.Errorf("%d of %d", c.CachedInfo().NumAckPending, keys)
		}
		return err
	})
	ran := make(chan queue.Key, keys)
	w.consume(w.connect(), "c", 2, func(_ context.Context, k queue.Key) queue.Result {
		ran <- k
		return queue.Result{}
	})
	for range keys * 3 / 4 {
		receive(w, "run by the second process", ran)
	}
	close(goOn)
	w.settled()
}
