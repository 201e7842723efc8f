package cluster

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

func TestNothingIsMadeFromWhatWasSeenLongAgo(t *testing.T) {
	t.Parallel()
	looked := time.Now()
	s := &Snapshot{sure: looked}
	for name, c := range map[string]struct {
		action rollout.Action
		after  time.Duration
		fenced bool
	}{
		"a canary at once":                    {rollout.CreateCanary{}, time.Millisecond, false},
		"a canary after a stop":               {rollout.CreateCanary{}, fence + time.Second, true},
		"a canary Service after a stop":       {rollout.CreateCanaryService{}, fence + time.Second, true},
		"pods to be deleted after a stop":     {rollout.ReplacePods{}, fence + time.Second, true},
		"what the API server refuses by then": {rollout.ScaleCanary{}, time.Hour, false},
	} {
		if got := s.fenced(c.action, looked.Add(c.after)); got != c.fenced {
			t.Errorf("%s is too late: %t, want %t", name, got, c.fenced)
		}
	}
}
