package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// fenceDuration is how long after an observation the executor may still create objects or delete pods. It is shorter
// than the rest of a lease that was not renewed.
const fenceDuration = 2 * time.Second

// errLeaseOver ends a run when another executor may have its lease. Another observation would not help this run. The
// other executor may create the canary and end the release between that observation and a create of this run.
var errLeaseOver = errors.New("the lease of this run has run out, and another executor may have gone on")

type leaseKey struct{}

// WithLease returns a context under which the client sends a request without a precondition only while the caller holds
// a lease. until returns the time at which the lease ends; later calls may return a later time.
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

// checkFence returns an error if an action comes too late. sure is the time at which the observation behind the action
// began. A create has no precondition. A process that was stopped, or that waited long for an answer, could create the
// canary of a release that another executor has ended since. The precondition of a pod's deletion covers this pod
// alone, and other pods may be gone.
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

// fenceClosed reports whether the fence of an observation that began at sure has closed.
func fenceClosed(sure, now time.Time) bool { return now.Sub(sure) > fenceDuration }

// withFenceDeadline returns a context for a request without a precondition that would stop it. Such a request creates
// an object, deletes a pod, or routes for the Rollouts that ask a TrafficRouting. The client sends the request while
// the fence is open and the caller holds its lease, or never.
func withFenceDeadline(ctx context.Context, sure time.Time) (context.Context, context.CancelFunc) {
	by := sure.Add(fenceDuration)
	if until, leased := leaseOf(ctx); leased && until.Before(by) {
		by = until
	}
	return context.WithDeadline(ctx, by)
}
