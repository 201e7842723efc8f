package matrix

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// batches are rollbacks that go step by step. A column with traffic plays them without its routing, because only a
// release without traffic routing goes back in batches.
func batches() []event {
	return []event{
		{name: "rollback in batches", meaning: "With the annotation `rollouts.kruise.io/rollback-in-batch`, and without traffic routing, a rollback is a release of the stable version, step by step. The remaining stable pods stay. A Deployment and a DaemonSet go back at once. A workload in canary or blue-green style goes back at once too.",
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
				c.finish("app:2", 2) // fewer of these pods run after each step
				c.settled("app:1")
				c.kept("app:1", before)
				return healthy("app:1")
			}},
	}
}
