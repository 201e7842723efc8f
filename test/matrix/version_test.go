package matrix

import (
	"sluice.dev/sluice/pkg/api"
)

// unended returns the moments of a release that cannot end by itself before it is rolled back.
func unended() []moment {
	moments := inRelease()
	for i, m := range moments {
		if m.name == finalising().name {
			moments[i] = promoted()
		}
	}
	return moments
}

// rollbacks are returns to the stable version.
func rollbacks() []event {
	return []event{
		{name: "rollback", meaning: "The owner gives the workload its old template again. Traffic leaves the new version, then its pods go. The remaining stable pods are not replaced. The condition Succeeded is False (True when no step had begun).",
			at: unended(), take: func(c *cell, m moment) end {
				before := c.seen.ids("app:1")
				c.back()
				e := canceled("app:1")
				if m.name == initializing().name {
					e.succeeded = ""
				}
				c.settled("app:1")
				if m.name != promoted().name {
					c.kept("app:1", before)
				}
				return e
			}},
		{name: "rollback while paused", meaning: "`spec.strategy.paused` does not stop a rollback.",
			at: inSteps(), take: func(c *cell, m moment) end {
				c.spec(`{"strategy":{"paused":true}}`)
				c.await("to stand still", frozen)
				c.back()
				return canceled("app:1")
			}},
		{name: "rollback and release again", meaning: "The version that was rolled back is released from step 1, like any other.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.back()
				c.await("the rollback's end", healthyAfter(1))
				c.settled("app:1")
				c.release("app:2")
				c.finish("app:2", 2)
				return healthy("app:2")
			}},
	}
}

// versions are new versions that arrive during a release of another one.
func versions() []event {
	next := func(c *cell, m moment) end {
		if m.frozen {
			c.unblock(m)
		}
		c.release("app:3")
		if m.name == paused(m.step).name {
			c.await("the newer version at step 1", pausedAt(1, 2))
			if stable, want := len(c.seen.running("app:1")), c.col.stays(replicas, c.steps[m.step-1].of(replicas)); stable < want {
				c.Errorf("at step 1 of the newer version there are %d stable pods, want %d at least", stable, want)
			}
		}
		c.finish("app:3", 2)
		return healthy("app:3")
	}
	return []event{
		{name: "continuous release", meaning: "A newer version replaces the one under way. Traffic returns to the stable version, and the pods of the replaced version go. Then the newer version starts at step 1. The stable version stays the same.",
			at: []moment{paused(1), paused(2), paused(3), stopped()}, take: next},
		{name: "newer version before the first step", meaning: "The newer version is released. The version before it never runs.",
			at: []moment{initializing()}, take: func(c *cell, m moment) end {
				c.release("app:3")
				c.unblock(m)
				c.approveUntil("app:3", 1, "the end", func(r *api.Rollout) bool { return healthyAfter(1)(r) && r.Status.Sluice.Epoch > 1 })
				return healthy("app:3")
			}},
		{name: "failing version then a good one", meaning: "As for a continuous release. No step waits for pods that will never be ready.",
			at: []moment{upgrading(1), upgrading(2), finalising(), promoted()}, take: next},
		{name: "continuous release and back", meaning: "A return to the stable version after a newer one is a rollback.",
			at: atPauses(), take: func(c *cell, _ moment) end {
				c.release("app:3")
				c.await("the newer version at step 1", pausedAt(1, 2))
				c.back()
				return canceled("app:1")
			}},
		{name: "version that returns", meaning: "A return to a partly released version is a release of it, from step 1.",
			at: atPauses(), take: func(c *cell, _ moment) end {
				c.release("app:3")
				c.await("the newer version at step 1", pausedAt(1, 2))
				c.release("app:2")
				c.finish("app:2", 3)
				return healthy("app:2")
			}},
		{name: "versions in haste", meaning: "Several versions follow each other at once. The last one is released.",
			at: []moment{idle(), paused(1), upgrading(2)}, take: func(c *cell, _ moment) end {
				for _, image := range []string{"app:3", "app:4", "app:5", "app:6"} {
					c.release(image)
				}
				c.approveUntil("app:6", 1, "the end", func(r *api.Rollout) bool {
					return healthyAfter(1)(r) && templateImage(c.get(c.col.resource, "app")) == "app:6" && r.Status.Sluice.WakeAt == nil && done(r)
				})
				return healthy("app:6")
			}},
	}
}

// done is the goal that the last release has succeeded.
func done(r *api.Rollout) bool {
	for _, condition := range r.Status.Conditions {
		if condition.Type == api.ConditionSucceeded {
			return condition.Status == "True"
		}
	}
	return false
}
