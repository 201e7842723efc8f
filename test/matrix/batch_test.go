package matrix

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// batches are rollbacks that shall go step by step. No column that could do so leaves its traffic alone, so that the row takes the
// routing away.
func batches() []event {
	return []event{
		{name: "rollback in batches", meaning: "With the annotation `rollouts.kruise.io/rollback-in-batch`, and without traffic routing, the stable version comes back step by step, as a release of " +
			"its own; stable pods that are left stay. Of a Deployment and of a DaemonSet, and where the stable pods stay beside the new ones, it comes back at once.",
			at: []moment{paused(1), paused(2), paused(3)}, made: func(c *cell) {
				c.col.routed = false
				c.adopted()
				if err := c.patch(api.RolloutResource(), "app", `{"metadata":{"annotations":{"`+api.AnnotationRollbackInBatch+`":"true"}}}`); err != nil {
					c.Fatal(err)
				}
			}, take: func(c *cell, m moment) end {
				before := c.seen.ids("app:1")
				c.back()
				if c.col.daemon || c.col.resource == deployments() || c.col.adds() {
					c.await("the rollback's end", healthyAfter(1))
					c.settled("app:1")
					c.kept("app:1", before)
					return canceled("app:1")
				}
				c.await("paused at step 1", pausedAt(1, 2))
				there := c.steps[m.step-1].of(c.replicas)
				left := there - c.steps[0].of(there)
				c.seen.await(c, fmt.Sprintf("%d pods of app:2", left), func(pods map[string][]string) bool { return len(pods["app:2"]) == left })
				c.finish("app:2", 2) // of which fewer run with each step
				c.settled("app:1")
				c.kept("app:1", before)
				return healthy("app:1")
			}},
	}
}
