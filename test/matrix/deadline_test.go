package matrix

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// deadlines bound how long a step may take to become ready.
func deadlines() []event {
	reaching := []moment{upgrading(1), upgrading(2)}
	return []event{
		{name: "deadline passed", meaning: "A step that is not ready after `progressDeadlineSeconds` is stalled with the reason ProgressDeadlineExceeded and gets no traffic. It goes on by itself when it is ready.",
			at: reaching, take: func(c *cell, m moment) end {
				c.deadline(api.DeadlinePause)
				c.await("held for its deadline", world.HeldFor(rollout.ReasonProgressDeadlineExceeded))
				c.quiet(false)
				c.unrouted(m)
				c.unblock(m)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "deadline passed and release aborted", meaning: "With `onDeadline: Abort` the release ends as if a user had aborted it: all traffic goes to the stable version, and the change is held.",
			at: reaching, take: func(c *cell, m moment) end {
				c.deadline(api.DeadlineAbort)
				c.takenBack()
				c.quiet(false)
				c.back()
				return canceled("app:1")
			}},
	}
}

// deadline gives every step a second, and the one under way a second from now on.
func (c *cell) deadline(then api.DeadlineAction) {
	c.Helper()
	c.spec(fmt.Sprintf(`{"strategy":{%q:{"progressDeadlineSeconds":1,"onDeadline":%q}}}`, c.col.style, then))
}
