package cluster

import (
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

// fence is for how long after a look at the world something may still be made. It is shorter than what is left of a lease that was
// not renewed.
const fence = 2 * time.Second

// fenced reports whether an action is too late for what was seen. A create has no precondition: a process that was stopped in between,
// or waited long for an answer, would make a canary of a release that another one has brought to its end meanwhile.
func (s *Snapshot) fenced(action rollout.Action, now time.Time) bool {
	switch action.(type) {
	case rollout.CreateCanary, rollout.CreateCanaryService:
		return now.Sub(s.sure) > fence
	}
	return false
}
