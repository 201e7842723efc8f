package executor

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

func TestWhenARunLooksAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	e := &Executor{Options: Options{Clock: func() time.Time { return now }}}
	refused := func(late bool) []rollout.Route {
		return []rollout.Route{{Steps: map[int32]rollout.Rendering{1: {Applied: true}, 2: {Refused: "stopped", TimedOut: late}}}}
	}
	for name, c := range map[string]struct {
		at       time.Time
		problems []rollout.Problem
		routes   []rollout.Route
		want     time.Time
	}{
		"an event tells what it waits for":      {time.Time{}, []rollout.Problem{{Reason: rollout.ReasonRouteMissing}}, refused(false), time.Time{}},
		"nothing tells of a granted permission": {time.Time{}, []rollout.Problem{{Reason: rollout.ReasonForbidden, Unknown: true}}, nil, now.Add(unreadableRetry)},
		"nothing tells of a less busy machine":  {time.Time{}, nil, refused(true), now.Add(unreadableRetry)},
		"a pause ends before that":              {now.Add(time.Second), nil, refused(true), now.Add(time.Second)},
		"a pause ends after that":               {now.Add(time.Hour), nil, refused(true), now.Add(unreadableRetry)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := e.nextWake(c.at, c.problems, c.routes); !got.Equal(c.want) {
				t.Errorf("it looks again at %v, want %v", got, c.want)
			}
		})
	}
}
