package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

func TestNothingIsMadeFromWhatWasSeenLongAgo(t *testing.T) {
	t.Parallel()
	leased := func(left time.Duration) context.Context {
		until := time.Now().Add(left)
		return WithLease(t.Context(), func() time.Time { return until })
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		ago  time.Duration
		want error
	}{
		"at once":                        {t.Context(), 0, nil},
		"after a stop":                   {t.Context(), fenceDuration + time.Second, apiclient.ErrStale},
		"with a lease":                   {leased(time.Hour), 0, nil},
		"with a lease, and after a stop": {leased(time.Hour), fenceDuration + time.Second, apiclient.ErrStale},
		"with a lease that is over":      {leased(-time.Millisecond), 0, errLeaseOver},
		"after a stop in which it ended": {leased(-time.Millisecond), fenceDuration + time.Second, errLeaseOver},
	} {
		sure := time.Now().Add(-c.ago)
		if err := checkFence(c.ctx, sure, rollout.CreateCanary{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestOnlyWhatHasNoPreconditionKeepsToTheFence(t *testing.T) {
	t.Parallel()
	for action, want := range map[rollout.Action]bool{
		rollout.CreateCanary{}: true, rollout.CreateCanaryService{}: true, rollout.ReplacePods{}: true,
		rollout.ScaleCanary{}: false, rollout.DeleteCanary{}: false,
	} {
		if got := needsFence(action); got != want {
			t.Errorf("%s makes something: %t", action, got)
		}
	}
}

func TestWhatIsMadeIsSentByTheEndOfTheFenceAndOfTheLease(t *testing.T) {
	t.Parallel()
	sure := time.Now()
	for name, c := range map[string]struct {
		ctx  context.Context
		want time.Time
	}{
		"without a lease":              {t.Context(), sure.Add(fenceDuration)},
		"with one that ends later":     {WithLease(t.Context(), func() time.Time { return sure.Add(time.Hour) }), sure.Add(fenceDuration)},
		"with one that ends before it": {WithLease(t.Context(), func() time.Time { return sure.Add(time.Second) }), sure.Add(time.Second)},
	} {
		ctx, cancel := withFenceDeadline(c.ctx, sure)
		defer cancel()
		if by, _ := ctx.Deadline(); !by.Equal(c.want) {
			t.Errorf("%s: by %s after the look", name, by.Sub(sure))
		}
	}
}
