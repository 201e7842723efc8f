package matrix

import (
	"regexp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// releases are releases that no event interrupts.
func releases() []event {
	return []event{
		{name: "release", meaning: "Each step gets its pods, then its traffic, and waits for its approval. After the last step all pods of the workload run the new version.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.release("app:2")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "release after release", meaning: "The version of a completed release is the stable version of the next one.",
			at: []moment{paused(3)}, take: func(c *cell, _ moment) end {
				c.finish("app:2", 1)
				c.release("app:3")
				c.finish("app:3", 2)
				return healthy("app:3")
			}},
		{name: "first deployment", meaning: "A workload created after its Rollout runs at once, because it has no older version. Its first change is a release.",
			at: []moment{idle()}, made: beforeItsWorkload, take: func(c *cell, _ moment) end {
				c.runs(c.col.workloadManifest(c.replicas))
				c.settled("app:1")
				c.adopts()
				c.release("app:2")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "Rollout made for what runs", meaning: "The executor adopts the workload and releases nothing.",
			at: []moment{idle()}, made: (*cell).owns, take: func(c *cell, _ moment) end {
				c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
				c.adopts()
				return end{phase: api.PhaseHealthy, image: "app:1"}
			}},
		{name: "Rollout made late", meaning: "The user creates the Rollout while a change already rolls out. The executor then pauses the workload. New pods stay, no more of them come, and the release begins at step 1.",
			at: []moment{idle()}, made: (*cell).owns, take: madeLate},
		{name: "two Rollouts on one workload", meaning: "The second Rollout is stalled with the reason WorkloadConflict and touches nothing. The first one goes on.",
			at: append(append([]moment{idle()}, inSteps()...), finalising(), stopped()), take: func(c *cell, m moment) end {
				c.second()
				if m.name == stopped().name {
					c.takenBack()
					c.back()
					c.await("the rollback's end", healthyAfter(1))
					c.deleteRollout("other")
					return canceled("app:1")
				}
				c.unblock(m)
				if m.epoch == 0 {
					c.release("app:2")
				}
				c.finish("app:2", 1)
				c.deleteRollout("other")
				return healthy("app:2")
			}},
		{name: "first of two Rollouts deleted", meaning: "The stalled Rollout takes the workload over.",
			at: []moment{idle()}, take: func(c *cell, m moment) end {
				c.second()
				c.deleteRollout("app")
				c.adoptedBy("other")
				c.deleteRollout("other")
				return end{image: "app:1"}
			}},
	}
}

// beforeItsWorkload creates all objects except the workload.
func beforeItsWorkload(c *cell) {
	c.create(services(), serviceManifest)
	c.createRoute()
	c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
	c.await("held for a workload", world.HeldFor(rollout.ReasonWorkloadMissing))
}

func madeLate(c *cell, _ moment) end {
	c.seen.allow("app:2", limit{none, 0})
	c.change("app:2", `"true"`)
	c.seen.await(c, "the native update in its middle", func(pods map[string][]string) bool { return len(pods["app:2"]) > 0 })
	c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
	c.await("the release seized", func(r *api.Rollout) bool { return r.Status.Sluice != nil && r.Status.Sluice.Epoch == 1 })
	c.allow("app:2", 1)
	c.seen.cure(none)
	c.finish("app:2", 1)
	return healthy("app:2")
}

// second creates another Rollout for the same workload, and waits until it stalls.
func (c *cell) second() {
	c.Helper()
	manifest := renamed(c.col.rolloutManifest(c.steps), "other")
	// The API server refuses to create it for the same workload.
	c.create(api.RolloutResource(), regexp.MustCompile(`(workloadRef: .*), name: app}`).ReplaceAllString(manifest, "$1, name: not-yet}"))
	if err := c.patch(api.RolloutResource(), "other", `{"spec":{"workloadRef":{"name":"app"}}}`); err != nil {
		c.Fatal(err)
	}
	c.rolloutOf("other", "held for a conflict", world.HeldFor(rollout.ReasonWorkloadConflict))
}
