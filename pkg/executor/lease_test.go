package executor_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// A suspended process continues its run while another process has the lease. The other process may have created and deleted the canary.
func TestARunWithoutItsLeaseMakesNoCanary(t *testing.T) {
	t.Parallel()
	w := idleWorld(t)
	ns := withApp(t, w)
	key := queue.Key{Cluster: w.Name, Namespace: ns, Name: "app"}
	first, err := w.NewExecutor(t.Context(), w.As(api.DefaultExecutor), "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Queue.Close()
	if r := first.Handle(t.Context(), key); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.Await(t, ns, "app", world.Healthy)
	w.Do(t, "-n", ns, "set", "image", "deployment/app", "c=app:2")

	ctx := world.Patient(t)
	leases, err := w.JetStream(t).KeyValue(ctx, queue.BucketLease)
	if err != nil {
		t.Fatal(err)
	}
	var lose sync.Once
	var lost atomic.Bool
	var made atomic.Int32
	config := w.As(api.DefaultExecutor)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/rollouts/app/status"):
				lose.Do(func() {
					lost.Store(true)
					if err := giveAway(ctx, leases, queue.HeldUntil(r.Context())); err != nil {
						t.Error(err)
					}
				})
			case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/deployments"):
				made.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	e, err := w.NewExecutor(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Queue.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// A run that takes too long to observe the cluster ends before it commits. Another run follows it.
	var robbed []error
	if err := first.Queue.PublishHint(ctx, key); err != nil {
		t.Fatal(err)
	}
	err = e.Queue.Consume(ctx, queue.ConsumeOptions{Cluster: w.Name, Workers: 1, Handler: func(ctx context.Context, asked queue.Key) queue.Result {
		if asked != key {
			return queue.Result{} // another test has left its Rollout
		}
		before := lost.Load()
		r := e.Handle(ctx, key)
		if !before && lost.Load() {
			if robbed = append(robbed, r.Err); made.Load() > 0 {
				t.Error("the run without a lease makes a canary")
			}
		}
		if made.Load() > 0 {
			stop()
		}
		return r
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(robbed) != 1 || robbed[0] == nil || !strings.Contains(robbed[0].Error(), "the lease of this run has run out") {
		t.Errorf("the run that lost its lease ends in %v", robbed)
	}
}

// giveAway writes another holder into each lease, and returns when until reports to the run that it has lost its lease.
func giveAway(ctx context.Context, leases jetstream.KeyValue, until func() time.Time) error {
	keys, err := leases.Keys(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := leases.PutString(ctx, key, "somebody else"); err != nil {
			return err
		}
	}
	for time.Now().Before(until()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
