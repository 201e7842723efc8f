package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

func benchConsume(b *testing.B, workers int, ran chan<- queue.Key) *queue.Queue {
	b.Helper()
	return benchHandle(b, workers, func(_ context.Context, k queue.Key) queue.Result {
		ran <- k
		return queue.Result{}
	})
}

func benchHandle(b *testing.B, workers int, handler queue.Handler) *queue.Queue {
	b.Helper()
	s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	q, err := queue.Connect(b.Context(), queue.Options{URL: s.URL(), User: s.User(), Password: s.Password(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(q.Close)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, queue.ConsumeOptions{Cluster: "c", Workers: workers, Handler: handler})
	}()
	b.Cleanup(func() { cancel(); <-done })
	return q
}

// BenchmarkHintToRun measures the latency from a hint to the start of its run.
func BenchmarkHintToRun(b *testing.B) {
	ran := make(chan queue.Key, 1)
	q := benchConsume(b, 1, ran)
	for i := 0; b.Loop(); i++ {
		if err := q.PublishHint(b.Context(), named(fmt.Sprintf("x%d", i%100))); err != nil {
			b.Fatal(err)
		}
		<-ran
	}
}

// BenchmarkThreeHundredKeys measures the time from 300 hints to the end of their runs.
func BenchmarkThreeHundredKeys(b *testing.B) {
	ran := make(chan queue.Key, 300)
	q := benchConsume(b, 16, ran)
	for b.Loop() {
		for i := range 300 {
			if err := q.PublishHint(b.Context(), named(fmt.Sprintf("x%d", i))); err != nil {
				b.Fatal(err)
			}
		}
		for range 300 {
			<-ran
		}
	}
}

// BenchmarkQuietTenant measures how long a quiet namespace's hints wait for their runs. It compares an idle queue with
// a queue that another namespace floods with slow work. The factor compares the 99th percentiles.
func BenchmarkQuietTenant(b *testing.B) {
	const (
		workers, noisyKeys, samples = 16, 400, 300
		slow, pace                  = 100 * time.Millisecond, 20 * time.Millisecond
	)
	ran := make(chan time.Time, 1)
	var noisy atomic.Int64
	q := benchHandle(b, workers, func(ctx context.Context, k queue.Key) queue.Result {
		if k.Namespace == "quiet" {
			ran <- time.Now()
			return queue.Result{}
		}
		noisy.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(slow):
		}
		return queue.Result{}
	})
	measure := func() (p50, p99 time.Duration) {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		var waits []time.Duration
		for i := range samples {
			at := time.Now()
			if err := q.PublishHint(b.Context(), queue.Key{Cluster: "c", Namespace: "quiet", Name: fmt.Sprintf("x%d", i%50)}); err != nil {
				b.Fatal(err)
			}
			waits = append(waits, (<-ran).Sub(at))
			<-tick.C
		}
		slices.Sort(waits)
		return waits[samples/2], waits[samples*99/100]
	}
	for b.Loop() {
		alone50, alone99 := measure()
		ctx, cancel := context.WithCancel(b.Context())
		flood := queue.NewHinter(q.PublishHint, slog.New(slog.DiscardHandler))
		var flooding sync.WaitGroup
		flooding.Go(func() { flood.Run(ctx) })
		flooding.Go(func() {
			for tick := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-tick.C {
				flood.Hint(queue.Key{Cluster: "c", Namespace: "noisy", Name: fmt.Sprintf("x%d", rand.N(noisyKeys))})
			}
		})
		for noisy.Load() < 2*workers {
			<-time.After(slow)
		}
		beside50, beside99 := measure()
		cancel()
		flooding.Wait()
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(ms(alone50), "alone-p50-ms")
		b.ReportMetric(ms(alone99), "alone-p99-ms")
		b.ReportMetric(ms(beside50), "beside-p50-ms")
		b.ReportMetric(ms(beside99), "beside-p99-ms")
		b.ReportMetric(float64(beside99)/float64(alone99), "factor")
	}
}
