package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

func TestHinter(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		// changes are the times at which the key changes. want are the times of its hints.
		changes []time.Duration
		// broken makes sending fail until then.
		broken time.Duration
		want   []time.Duration
	}{
		"a single change is sent at once":                  {changes: []time.Duration{0}, want: []time.Duration{0}},
		"a burst is sent at once and once more at its end": {changes: []time.Duration{0, 1 * ms, 2 * ms, 19 * ms}, want: []time.Duration{0, 20 * ms}},
		"a stream is sent every 20 ms":                     {changes: []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms, 50 * ms}, want: []time.Duration{0, 20 * ms, 40 * ms, 60 * ms}},
		"changes far apart do not wait":                    {changes: []time.Duration{0, 50 * ms, 100 * ms}, want: []time.Duration{0, 50 * ms, 100 * ms}},
		"what could not be sent is sent a second later":    {changes: []time.Duration{0}, broken: 10 * ms, want: []time.Duration{1000 * ms}},
		"a change meanwhile is sent with it, once":         {changes: []time.Duration{0, 1 * ms, 2 * ms}, broken: 10 * ms, want: []time.Duration{20 * ms}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []time.Duration
				h := queue.NewHinter(func(context.Context, queue.Key) error {
					if time.Since(start) < tt.broken {
						return errors.New("no NATS")
					}
					got = append(got, time.Since(start))
					return nil
				}, slog.New(slog.DiscardHandler))
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { h.Run(ctx); close(done) }()
				for _, at := range tt.changes {
					<-time.After(time.Until(start.Add(at)))
					h.Hint(queue.Key{Cluster: "c", Namespace: "n", Name: "x"})
					synctest.Wait()
				}
				<-time.After(time.Minute)
				stop()
				<-done
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
