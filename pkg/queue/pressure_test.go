package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/queue"
)

// One answer of the API server stops all runs of the process, and only of this process. The refused key runs again by
// itself, and does not count as failing.
func TestAnAPIServerThatAsksToWaitIsLeftAloneByTheWholeProcess(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	const asked = time.Second
	metrics := prometheus.NewRegistry()
	var refused atomic.Bool
	var mu sync.Mutex
	began := map[queue.Key]time.Time{}
	refusal := make(chan time.Time, 1)
	w.consumeWith(q, queue.ConsumeOptions{Cluster: "c", Workers: 8, Metrics: queue.NewMetrics(metrics, queue.TaskRelease),
		Handler: func(_ context.Context, k queue.Key) queue.Result {
			if k == named("refused") && !refused.Swap(true) {
				refusal <- time.Now()
				return queue.Result{Err: errors.New("too many requests"), RetryAfter: asked}
			}
			mu.Lock()
			defer mu.Unlock()
			began[k] = time.Now()
			return queue.Result{}
		}})
	w.hint(q, named("refused"))
	at := receive(w, "refusal", refusal)
	w.until("the process has been told", func(context.Context) error {
		if counter(t, metrics, "sluice_queue_throttled_total") != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	others := []queue.Key{named("a"), named("b"), {Cluster: "c", Namespace: "other", Name: "c"}}
	for _, k := range others {
		w.hint(q, k)
	}
	w.settled()
	mu.Lock()
	defer mu.Unlock()
	for _, k := range append(others, named("refused")) {
		if d := began[k].Sub(at); d < asked || d > asked+late {
			t.Errorf("%s began %s after the refusal", k, d)
		}
	}
	if n := counter(t, metrics, "sluice_queue_throttled_seconds_total"); n < 0.9 || n > 1 {
		t.Errorf("paused for %v s, want 1", n)
	}
	if n := counter(t, metrics, "sluice_queue_retries_total"); n != 1 {
		t.Errorf("%v retries, want 1", n)
	}
}

// Repeated refusals are not failures of the key. It gets no letter, and its delays do not grow.
func TestAKeyThatABusyAPIServerRefusesIsNotFailing(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var times []time.Time
	w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		times = append(times, time.Now())
		if len(times) <= 12 {
			return queue.Result{Err: errors.New("too many requests"), RetryAfter: 10 * time.Millisecond}
		}
		return queue.Result{}
	})
	w.hint(q, named("x"))
	w.settled()
	if got := w.letters(q); len(got) != 0 {
		t.Errorf("letters: %+v", got)
	}
	// Twelve failures would cost several minutes of delay.
	if d := times[len(times)-1].Sub(times[0]); len(times) != 13 || d > patience {
		t.Errorf("%d runs in %s", len(times), d)
	}
}

// The wait is bounded: a server cannot stop a process for an hour.
func TestAWaitThatTheAPIServerAsksForIsBounded(t *testing.T) {
	t.Parallel()
	if got := queue.PauseFor(time.Hour); got < 30*time.Second || got > 40*time.Second {
		t.Errorf("the key comes back after %s", got)
	}
}

// A NATS that does not say which process holds a key is no failure either. The key is tried again after seconds. If a
// run fails then, its delay is the delay after one failure.
func TestALeaseWithoutAnAnswerIsNoFailureOfTheKey(t *testing.T) {
	t.Parallel()
	put, failed := queue.PutOff(20)
	if put < 3*time.Second || put > 5*time.Second {
		t.Errorf("the key is put off by %s", put)
	}
	if failed > 100*time.Millisecond {
		t.Errorf("it comes back %s after its first failure", failed)
	}
}
