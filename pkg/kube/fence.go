package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// fenceDuration is how long after an observation the client may still create an object or delete pods. It is shorter than the remaining time of a
// lease that was not renewed.
const fenceDuration = 2 * time.Second

// errLeaseOver ends a run when another executor may have its lease. A fresh look would not help this run: the other executor may make the canary and
// end the release between that look and a create of this run.
var errLeaseOver = errors.New("the lease of this run has run out, and another executor may have gone on")

type leaseKey struct{}

// WithLease returns a context under which the client sends a request without a precondition only while the caller holds a lease. until returns the time
// up to which the caller holds it; later calls may return another one.
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

// checkFence returns why an action comes too late, nil if it does not. sure is when the look that decided the action began. A create has no
// precondition: a process that was stopped after its look, or that waited long for an answer, would make the canary of a release that another executor
// has ended meanwhile. The precondition of a pod's deletion is about this pod alone, while other pods may have gone.
func checkFence(ctx context.Context, sure time.Time, action rollout.Action) error {
	if until, leased := leaseOf(ctx); leased && apiclient.DeadlinePassed(until) {
		return fmt.Errorf("%s: %w", action, errLeaseOver)
	}
	if fenceClosed(sure, time.Now()) {
		return apiclient.StaleAction(action)
	}
	return nil
}

// needsFence reports whether an action creates an object or deletes pods.
func needsFence(action rollout.Action) bool {
	switch action.(type) {
	case rollout.CreateCanary, rollout.CreateCanaryService, rollout.ReplacePods:
		return true
	}
	return false
}

// fenceClosed reports whether the fence of a look that began at sure has closed.
func fenceClosed(sure, now time.Time) bool { return now.Sub(sure) > fenceDuration }

// withFenceDeadline returns a context for a request without a precondition that would stop it: a request that creates an object, deletes a pod, or
// routes for a Rollout that claims a TrafficRouting. The client sends the request while the fence is open and the caller holds its lease, or never.
func withFenceDeadline(ctx context.Context, sure time.Time) (context.Context, context.CancelFunc) {
	by := sure.Add(fenceDuration)
	if until, leased := leaseOf(ctx); leased && until.Before(by) {
		by = until
	}
	return context.WithDeadline(ctx, by)
}
