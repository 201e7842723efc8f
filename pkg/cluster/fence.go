package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

// fence is for how long after a look at the world something may still be made, or pods deleted. It is shorter than what is left of a lease that was
// not renewed.
const fence = 2 * time.Second

// errLeaseOver is about a run that another executor may have followed. To look again would not help: that one is at work too, and may bring the
// release to its end between this look and what it has this run make.
var errLeaseOver = errors.New("the lease of this run has run out, and another executor may have gone on")

type leaseKey struct{}

// WithLease returns a context under which objects are created, and pods deleted, only while a lease is held. until returns the time up to which it is
// held; later calls may return another one.
func WithLease(ctx context.Context, until func() time.Time) context.Context {
	return context.WithValue(ctx, leaseKey{}, until)
}

func leaseOf(ctx context.Context) (until time.Time, leased bool) {
	of, leased := ctx.Value(leaseKey{}).(func() time.Time)
	if leased {
		until = of()
	}
	return until, leased
}

// mayMake returns why an action is too late for what was seen by a look that began at sure, nil if it is not. A create has no precondition: a
// process that was stopped in between, or waited long for an answer, would make a canary of a release that another one has brought to
// its end meanwhile. That of a pod's deletion is about this pod alone, while others may have gone.
func mayMake(ctx context.Context, sure time.Time, action rollout.Action) error {
	if until, leased := leaseOf(ctx); leased && over(until) {
		return fmt.Errorf("%s: %w", action, errLeaseOver)
	}
	if shut(sure, time.Now()) {
		return stale(action)
	}
	return nil
}

// makes reports whether an action makes something, or deletes pods.
func makes(action rollout.Action) bool {
	switch action.(type) {
	case rollout.CreateCanary, rollout.CreateCanaryService, rollout.ReplacePods:
		return true
	}
	return false
}

// shut reports whether the fence of a look that began at sure has closed.
func shut(sure, now time.Time) bool { return now.Sub(sure) > fence }

// soon is for a call that makes something, deletes pods, or routes for whoever asks: it is sent while the fence is open and the lease is held, or
// never.
func soon(ctx context.Context, sure time.Time) (context.Context, context.CancelFunc) {
	by := sure.Add(fence)
	if until, leased := leaseOf(ctx); leased && until.Before(by) {
		by = until
	}
	return context.WithDeadline(ctx, by)
}
