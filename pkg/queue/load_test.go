package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/queue"
)

// load is the load of watchers and executors on NATS: keys are hinted all the time, and run.
type load struct {
	*testing.T
	keys   []queue.Key
	hinter *queue.Hinter

	mu    sync.Mutex
	began map[queue.Key]time.Time // the newest run of each
	runs  []time.Time
}

// underLoad sends hints for the keys over one connection and runs them over the others, until the test ends.
func underLoad(t *testing.T, keys int, hints *queue.Queue, runners ...*queue.Queue) *load {
	t.Helper()
	l := &load{T: t, began: map[queue.Key]time.Time{}, hinter: queue.NewHinter(hints.PublishHint, slog.New(slog.DiscardHandler))}
	for i := range keys {
		l.keys = append(l.keys, queue.Key{Cluster: "c", Namespace: fmt.Sprintf("n%d", i%3), Name: fmt.Sprintf("x%d", i)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { l.hinter.Run(ctx) })
	for _, q := range runners {
		running.Go(func() {
			if err := q.Consume(ctx, queue.ConsumeOptions{Cluster: "c", Workers: 8, Handler: l.run}); err != nil {
				t.Error(err)
			}
		})
	}
	return l
}

func (l *load) run(_ context.Context, k queue.Key) queue.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.began[k] = now
	l.runs = append(l.runs, now)
	return queue.Result{}
}

// hintFor hints one key after the other.
func (l *load) hintFor(d time.Duration) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		l.hinter.Hint(l.keys[i%len(l.keys)])
		<-tick.C
	}
}

// everyLastHintRuns hints each key once more and waits until each has run since.
func (l *load) everyLastHintRuns(patience time.Duration) {
	l.Helper()
	last := map[queue.Key]time.Time{}
	for _, k := range l.keys {
		last[k] = time.Now()
		l.hinter.Hint(k)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		var missing []queue.Key
		l.mu.Lock()
		for k, at := range last {
			if !l.began[k].After(at) {
				missing = append(missing, k)
			}
		}
		l.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		select {
		case <-deadline:
			l.Fatalf("%d of %d keys did not run after their last hint, %s among them", len(missing), len(last), missing[0])
		case <-tick.C:
		}
	}
}

// stall returns the longest time without a run since then, and the number of runs.
func (l *load) stall(since time.Time) (longest time.Duration, runs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := since
	for _, at := range l.runs {
		if at.Before(since) {
			continue
		}
		runs++
		longest = max(longest, at.Sub(before))
		before = at
	}
	return longest, runs
}
