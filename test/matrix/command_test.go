package matrix

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
)

// frozen is the goal that a Rollout stands still because its owner has paused it.
func frozen(r *api.Rollout) bool {
	return r.Status.Message == "Rollout has been paused, you can resume it by kube-cli"
}

// pauses are events that stop a release in its current state.
func pauses() []event {
	return []event{
		{name: "paused and resumed", meaning: "`spec.strategy.paused` stops the release, even at a point where it needs no approval. When the owner removes the field, the release goes on from there. The field does not stop a release that has all its approvals. An aborted release stays aborted. If a user retries it, it waits before its first step.",
			at: append(inSteps(), finalising(), stopped()), take: func(c *cell, m moment) end {
				switch m.name {
				case finalising().name:
					return pausedTooLate(c, m)
				case stopped().name:
					return pausedAndRetried(c)
				}
				c.spec(`{"strategy":{"paused":true}}`)
				r := c.await("to stand still", frozen)
				c.unblock(m)
				c.quiet(false)
				if now := c.rollout(c.get(api.RolloutResource(), "app")); now.Status.CurrentStepState != r.Status.CurrentStepState {
					c.Errorf("the paused Rollout went from %s to %s", r.Status.CurrentStepState, now.Status.CurrentStepState)
				}
				c.spec(`{"strategy":{"paused":null}}`)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "approved while paused", meaning: "The approval counts. It takes effect when the Rollout is resumed.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.spec(`{"strategy":{"paused":true}}`)
				c.await("to stand still", frozen)
				c.approve("app:2", m.step)
				r := c.await("the approval recorded", func(r *api.Rollout) bool { return len(r.Status.Approvals) == m.step })
				if int(r.Status.CurrentStepIndex) != m.step || !frozen(r) {
					c.Errorf("the paused Rollout went to step %d", r.Status.CurrentStepIndex)
				}
				c.spec(`{"strategy":{"paused":null}}`)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
	}
}

// pausedTooLate pauses a release that has all its approvals. The release has no step left that could stand still.
func pausedTooLate(c *cell, m moment) end {
	c.spec(`{"strategy":{"paused":true}}`)
	c.quietly()
	c.unblock(m)
	c.await("the end", healthyAfter(1))
	c.settled("app:2")
	c.spec(`{"strategy":{"paused":null}}`)
	return healthy("app:2")
}

// pausedAndRetried pauses an aborted release and retries it while it is paused.
func pausedAndRetried(c *cell) end {
	c.spec(`{"strategy":{"paused":true}}`)
	c.quiet(false)
	c.takenBack()
	c.command(api.CommandRetry)
	c.await("to stand still before its first step", func(r *api.Rollout) bool {
		return frozen(r) && r.Status.Sluice.Epoch == 2 && inState(string(rollout.StateInitializing))(r)
	})
	c.spec(`{"strategy":{"paused":null}}`)
	c.finish("app:2", 2)
	return healthy("app:2")
}

// jumps set nextStepIndex.
func jumps() []event {
	jump := func(to int) func(*cell, moment) end {
		return func(c *cell, m moment) end {
			before := c.seen.ids("app:2")
			c.allow("app:2", to)
			if err := c.status(fmt.Sprintf(`"nextStepIndex":%d`, to)); err != nil {
				c.Fatal(err)
			}
			c.unblock(m)
			c.await(fmt.Sprintf("paused at step %d", to), pausedAt(int32(to), 1))
			if got, want := len(c.seen.running("app:2")), c.steps[max(to, m.step)-1].of(c.replicas); got < c.steps[to-1].of(c.replicas) || got > want {
				c.Errorf("%d pods run the new version after a jump from step %d to %d", got, m.step, to)
			}
			c.kept("app:2", before)
			if c.col.routed {
				c.weight(c.steps[to-1].traffic)
			}
			c.finish("app:2", 1)
			return healthy("app:2")
		}
	}
	return []event{
		{name: "jump to the last step", meaning: "`nextStepIndex` skips the steps in between. The named step gets its pods, then its traffic.",
			at: []moment{upgrading(1), paused(1)}, take: jump(3)},
		{name: "jump back to the first step", meaning: "The traffic returns to the share of the first step. Existing pods stay.",
			at: []moment{upgrading(2), paused(2), paused(3)}, take: jump(1)},
		{name: "jump to no step", meaning: "If `nextStepIndex` is not the number of a step, the API server refuses it, or the executor resets it and records an Event. The release stays at its step.",
			at: atPauses(), take: func(c *cell, m moment) end {
				for _, index := range []int{9, 0, -7} {
					_ = c.status(fmt.Sprintf(`"nextStepIndex":%d`, index)) // refused at once, or reset later
					next := m.step + 1
					if next > len(c.steps) {
						next = -1
					}
					c.await("nextStepIndex taken back", func(r *api.Rollout) bool {
						return pausedAt(int32(m.step), 1)(r) && int(r.Status.Common().NextStepIndex) == next
					})
				}
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
	}
}

// told waits for an Event with a text.
func (c *cell) told(text string) {
	c.Helper()
	events, err := controlplane.Watch(c.bound, c.kube().EventsV1().Events(c.ns), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if event, ok := e.Object.(*eventsv1.Event); ok && strings.Contains(event.Note, text) {
			return
		}
	}
	c.Errorf("no Event says %q", text)
}

// weight waits until the route sends a share to the new version.
func (c *cell) weight(want int) {
	c.Helper()
	c.routes(fmt.Sprintf("%d%% to the new version", want), func(got int) bool { return got == want })
}

// promotions are events that end a release early as a success.
func promotions() []event {
	return []event{
		{name: "promoted to the end", meaning: "`sluice promote --full` skips the remaining steps, with their pauses and analyses. The release ends as a success.",
			at: inSteps(), take: func(c *cell, m moment) end {
				c.free("app:2")
				c.unblock(m)
				c.command(api.CommandPromote)
				c.await("the end", healthyAfter(1))
				return healthy("app:2")
			}},
		{name: "failing version promoted", meaning: "The user accepts the version by the promotion. So the executor ends the hold of the workload although its pods are not ready. The workload's own budget bounds the number of unavailable pods.",
			at: []moment{upgrading(1), upgrading(2)}, take: func(c *cell, m moment) end {
				c.free("app:2")
				c.command(api.CommandPromote)
				c.await("finalising", func(r *api.Rollout) bool { return r.Status.Sluice.State == "Finalising" })
				c.unblock(m)
				return healthy("app:2")
			}},
	}
}

// takenBack waits until an aborted release has left only the change, which is held.
func (c *cell) takenBack() {
	c.Helper()
	c.await("aborted", aborted)
	c.seen.await(c, "no pods of the new version", func(pods map[string][]string) bool {
		return len(pods["app:2"]) == 0 && len(pods["app:1"]) == c.replicas
	})
	c.object(c.col.resource, "app", "stable pods ready", func(u *unstructured.Unstructured) bool {
		return c.col.ready(u) == int64(c.replicas) && number(u, "status", "observedGeneration") == u.GetGeneration()
	})
	if c.col.routed {
		c.weight(0)
	}
}

// aborts are events that stop a release for good, or until a retry.
func aborts() []event {
	moments := append([]moment{initializing()}, inSteps()...)
	abort := func(c *cell) {
		c.Helper()
		c.command(api.CommandAbort)
		c.takenBack()
	}
	return []event{
		{name: "aborted", meaning: "All traffic goes to the stable version, then the new pods go. The change stays held, and executors write nothing more. If the Rollout is then deleted, the workload keeps the stable version.",
			at: moments, take: func(c *cell, _ moment) end {
				abort(c)
				c.quiet(false)
				c.deleteRollout("app")
				return end{image: "app:1"}
			}},
		{name: "aborted and tried again", meaning: "`sluice retry` releases the same version from its first step.",
			at: moments, take: func(c *cell, m moment) end {
				abort(c)
				c.command(api.CommandRetry)
				c.unblock(m)
				c.finish("app:2", 2)
				return healthy("app:2")
			}},
		{name: "aborted twice", meaning: "A user may abort a release again after a retry.",
			at: atPauses(), take: func(c *cell, _ moment) end {
				abort(c)
				c.command(api.CommandRetry)
				c.await("at step 1 again", pausedAt(1, 2))
				abort(c)
				c.back()
				return canceled("app:1")
			}},
		{name: "aborted too late", meaning: "A user cannot abort a release that has all its approvals or was promoted. The executor removes the command and records an Event, and the release ends as a success. A rollback is still possible.",
			at: []moment{finalising(), promoted()}, take: func(c *cell, m moment) end {
				c.command(api.CommandAbort)
				c.await("the command taken back", func(r *api.Rollout) bool { return r.Status.Command == nil })
				c.told("the command Abort by admin was not followed")
				if m.name == promoted().name { // a promoted release that lacks only one pod may have ended meanwhile
					c.told("sluice undo app")
				}
				c.unblock(m)
				c.await("the end", healthyAfter(1))
				return healthy("app:2")
			}},
	}
}
