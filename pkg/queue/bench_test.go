package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
)

func benchConsume(b *testing.B, workers int, ran chan<- queue.Key) *queue.Queue {
	b.Helper()
	s, err := embedded.Start(embedded.Options{Dir: b.TempDir()})
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
		done <- q.Consume(ctx, queue.ConsumeOptions{Cluster: "c", Workers: workers, Handler: func(_ context.Context, k queue.Key) queue.Result {
			ran <- k
			return queue.Result{}
		}})
	}()
	b.Cleanup(func() { cancel(); <-done })
	return q
}

// BenchmarkHintToRun is the latency from a hint to the start of its run.
func BenchmarkHintToRun(b *testing.B) {
	ran := make(chan queue.Key, 1)
	q := benchConsume(b, 1, ran)
	for i := 0; b.Loop(); i++ {
		if err := q.Hint(b.Context(), named(fmt.Sprintf("x%d", i%100))); err != nil {
			b.Fatal(err)
		}
		<-ran
	}
}

// BenchmarkThreeHundredKeys is the time from 300 hints to the end of their runs.
func BenchmarkThreeHundredKeys(b *testing.B) {
	ran := make(chan queue.Key, 300)
	q := benchConsume(b, 16, ran)
	for b.Loop() {
		for i := range 300 {
			if err := q.Hint(b.Context(), named(fmt.Sprintf("x%d", i))); err != nil {
				b.Fatal(err)
			}
		}
		for range 300 {
			<-ran
		}
	}
}
