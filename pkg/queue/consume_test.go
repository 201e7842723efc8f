package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/queue"
)

func TestManyHintsDuringARunAreOneMoreRun(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var runs atomic.Int32
	begun, goOn, last := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.consume(q, "c", 4, func(_ context.Context, k queue.Key) queue.Result {
		switch {
		case k == named("last"):
			close(last)
		case runs.Add(1) == 1:
			close(begun)
			<-goOn
		}
		return queue.Result{}
	})
	w.hint(q, named("x"))
	receive(w, "first run", begun)
	for range 50 {
		w.hint(q, named("x"))
	}
	// Hints arrive in order: once this hint is here, so are the fifty.
	w.hint(q, named("last"))
	receive(w, "last hint", last)
	close(goOn)
	w.settled()
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

func TestAHintDuringARunIsAcknowledgedByALaterRunOnly(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	begun, goOn, last := make(chan struct{}, 10), make(chan struct{}, 10), make(chan struct{})
	w.consume(q, "c", 2, func(_ context.Context, k queue.Key) queue.Result {
		if k == named("last") {
			close(last)
			return queue.Result{}
		}
		begun <- struct{}{}
		<-goOn
		return queue.Result{}
	})
	w.hint(q, named("x"))
	receive(w, "first run", begun)
	w.hint(q, named("x"))
	w.hint(q, named("x"))
	w.hint(q, named("last"))
	receive(w, "last hint", last)
	goOn <- struct{}{}
	receive(w, "second run", begun)
	// NATS delivers a forgotten hint again only after the ack wait of its holder.
	if c, err := w.admin.Consumer(t.Context(), queue.StreamWork, "executor-c"); err != nil || c.CachedInfo().NumRedelivered > 0 {
		t.Errorf("the second run is for a hint that NATS delivered again: %v", err)
	}
	s, err := w.admin.Stream(t.Context(), queue.StreamWork)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetLastMsgForSubject(t.Context(), named("x").WorkSubject()); err != nil {
		t.Errorf("the newest hint while its run is under way: %v", err)
	}
	goOn <- struct{}{}
	w.settled()
}

func TestAKeyNeverRunsTwiceAtOnce(t *testing.T) {
	w := aWorld(t)
	keys := []queue.Key{named("a"), named("b"), named("c"), named("d"), named("e")}
	running := map[queue.Key]*atomic.Int32{}
	for _, k := range keys {
		running[k] = &atomic.Int32{}
	}
	var runs, twice atomic.Int32
	var qs []*queue.Queue
	for range 3 {
		q := w.connect()
		qs = append(qs, q)
		w.consume(q, "c", 4, func(ctx context.Context, k queue.Key) queue.Result {
			runs.Add(1)
			if running[k].Add(1) > 1 {
				twice.Add(1)
			}
			// It takes some time, as real work does.
			for range 20 {
				if _, err := w.admin.AccountInfo(ctx); err != nil {
					t.Error(err)
				}
			}
			running[k].Add(-1)
			return queue.Result{}
		})
	}
	var senders sync.WaitGroup
	for _, q := range qs {
		senders.Go(func() {
			for range 20 {
				for _, k := range keys {
					w.hint(q, k)
				}
			}
		})
	}
	senders.Wait()
	w.settled()
	if n := twice.Load(); n != 0 {
		t.Errorf("%d runs began while another run of their key was under way", n)
	}
	t.Logf("300 hints, %d runs", runs.Load())
}

func TestTwoClustersDoNotMeet(t *testing.T) {
	w := aWorld(t)
	got := map[string]chan queue.Key{}
	q := w.connect()
	for _, cluster := range []string{"eu", "eu.1"} {
		ch := make(chan queue.Key, 10)
		got[cluster] = ch
		w.consume(w.connect(), cluster, 2, func(_ context.Context, k queue.Key) queue.Result {
			ch <- k
			return queue.Result{}
		})
	}
	for cluster := range got {
		w.hint(q, queue.Key{Cluster: cluster, Namespace: "shop", Name: "x"})
	}
	w.settled()
	for cluster, ch := range got {
		if len(ch) != 1 {
			t.Fatalf("%s ran %d times", cluster, len(ch))
		}
		if diff := cmp.Diff(queue.Key{Cluster: cluster, Namespace: "shop", Name: "x"}, <-ch); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAPanicIsTriedAgainAndOthersGoOn(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	metrics := prometheus.NewRegistry()
	var bad, good atomic.Int32
	w.consumeWith(q, queue.ConsumeOptions{Cluster: "c", Workers: 1, Metrics: queue.NewMetrics(metrics, queue.TaskRelease),
		Handler: func(_ context.Context, k queue.Key) queue.Result {
			if k == named("good") {
				good.Add(1)
				return queue.Result{}
			}
			if bad.Add(1) < 3 {
				panic("nil map")
			}
			return queue.Result{}
		}})
	w.hint(q, named("bad"))
	w.hint(q, named("good"))
	w.settled()
	if diff := cmp.Diff([]int32{3, 1}, []int32{bad.Load(), good.Load()}); diff != "" {
		t.Error("runs of the bad key and the good one", diff)
	}
	if n := counter(t, metrics, "sluice_queue_panics_total"); n != 2 {
		t.Errorf("%v panics counted, want 2", n)
	}
}

func counter(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestAnErrorIsTriedAgainWithGrowingWaits(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	var times []time.Time
	w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result {
		times = append(times, time.Now())
		if len(times) < 4 {
			return queue.Result{Err: errors.New("the API server is away")}
		}
		return queue.Result{}
	})
	w.hint(q, named("x"))
	w.settled()
	if len(times) != 4 {
		t.Fatalf("%d runs, want 4", len(times))
	}
	for i, least := range []time.Duration{66, 133, 266} {
		if wait := times[i+1].Sub(times[i]); wait < least*time.Millisecond {
			t.Errorf("wait %d was %s, want %d ms at least", i+1, wait, least)
		}
	}
}

func TestAStopWaitsForTheRunAndGivesTheRestBack(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	begun, goOn, stopped := make(chan context.Context, 1), make(chan struct{}), make(chan error, 1)
	var rest atomic.Int32
	stop := w.consume(q, "c", 1, func(ctx context.Context, k queue.Key) queue.Result {
		if k == named("slow") {
			begun <- ctx
			<-goOn
		} else {
			rest.Add(1)
		}
		return queue.Result{}
	})
	w.hint(q, named("slow"))
	ctx := receive(w, "slow run", begun)
	w.hint(q, named("waiting")) // for the same namespace, so the express does not take it
	w.until("both hints are held", func(ctx context.Context) error {
		c, err := w.admin.Consumer(ctx, queue.StreamWork, "executor-c")
		if err == nil && c.CachedInfo().NumAckPending != 2 {
			err = fmt.Errorf("%d are", c.CachedInfo().NumAckPending)
		}
		return err
	})
	other := make(chan queue.Key, 10)
	w.consume(w.connect(), "c", 1, func(_ context.Context, k queue.Key) queue.Result {
		other <- k
		return queue.Result{}
	})
	heard := listen(w)
	go func() { stopped <- stop() }()
	if k := receive(w, "what was given back", other); k != named("waiting") || rest.Load() != 0 {
		t.Errorf("the other consumer got %s, the stopped one ran %d more", k, rest.Load())
	}
	heard.until(w, "-NAK") // without it, NATS delivers the hint only after the ack wait
	// The run is under way all that time, and is not cancelled.
	if err := ctx.Err(); err != nil {
		t.Errorf("the running handler was cut short: %v", err)
	}
	w.hint(q, named("new"))
	if k := receive(w, "a new hint", other); k != named("new") {
		t.Errorf("%s ran", k)
	}
	close(goOn)
	if err := receive(w, "stop", stopped); err != nil {
		t.Error(err)
	}
	w.settled()
}

func TestClusterNamesAreChecked(t *testing.T) {
	w := aWorld(t)
	err := w.connect().Consume(t.Context(), queue.ConsumeOptions{Cluster: "c.>"})
	if err == nil || !strings.Contains(err.Error(), `"c.>"`) {
		t.Errorf("error is %v", err)
	}
}
