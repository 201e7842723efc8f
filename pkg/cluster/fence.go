package cluster

import (
	"context"
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

// fence is for how long after a look at the world something may still be made, or pods deleted. It is shorter than what is left of a lease that was
// not renewed.
const fence = 2 * time.Second

// fenced reports whether an action is too late for what was seen. A create has no precondition: a process that was stopped in between,
// or waited long for an answer, would make a canary of a release that another one has brought to its end meanwhile. That of a pod's
// deletion is about this pod alone, while others may have gone.
func (s *Snapshot) fenced(action rollout.Action, now time.Time) bool {
	switch action.(type) {
	case rollout.CreateCanary, rollout.CreateCanaryService, rollout.ReplacePods:
		return shut(s.sure, now)
	}
	return false
}

// shut reports whether the fence of a look that began at sure has closed.
func shut(sure, now time.Time) bool { return now.Sub(sure) > fence }

// soon is for a call that makes something, deletes pods, or routes for whoever asks: it is sent while the fence is open, or never.
func soon(ctx context.Context, sure time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, sure.Add(fence))
}
