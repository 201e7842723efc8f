package matrix

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// moment is a state of a release from app:1 to app:2 in which an event happens.
type moment struct {
	name string
	// step is the step under way, 0 for none.
	step int
	// epoch is the number of releases that have begun.
	epoch int64
	// sick reports that pods of app:2 are kept unready, frozen that the Rollout is paused.
	sick, frozen bool
	reach        func(*cell)
}

func idle() moment { return moment{name: "idle", reach: func(*cell) {}} }

// initializing is a release that its owner has paused before its first step.
func initializing() moment {
	return moment{name: "initializing", epoch: 1, frozen: true, reach: func(c *cell) {
		c.spec(`{"strategy":{"paused":true}}`)
		c.release("app:2")
		c.await("to stand still in Initializing", inState(string(rollout.StateInitializing)))
	}}
}

// upgrading is a step that cannot go on, because a new pod is not ready.
func upgrading(step int) moment {
	return moment{name: fmt.Sprintf("upgrading step %d", step), step: step, epoch: 1, sick: true, reach: func(c *cell) {
		ready := 0
		if step > 1 {
			ready = c.steps[step-2].of(c.replicas)
		}
		c.seen.cure(ready)
		c.releaseSick("app:2")
		c.climb(step)
		c.await(fmt.Sprintf("upgrading step %d", step), func(r *api.Rollout) bool {
			return r.Status.CurrentStepState == api.StepUpgrade && int(r.Status.CurrentStepIndex) == step
		})
		c.seen.await(c, "a pod of step "+fmt.Sprint(step), func(pods map[string][]string) bool { return len(pods["app:2"]) > ready })
	}}
}

// climb approves the steps before a step.
func (c *cell) climb(step int) {
	c.Helper()
	for n := 1; n < step; n++ {
		c.await(fmt.Sprintf("paused at step %d", n), pausedAt(int32(n), 1))
		c.approve("app:2", n)
	}
}

// paused is a step that waits for its approval.
func paused(step int) moment {
	return moment{name: fmt.Sprintf("paused at step %d", step), step: step, epoch: 1, reach: func(c *cell) {
		c.release("app:2")
		c.climb(step)
		c.await(fmt.Sprintf("paused at step %d", step), pausedAt(int32(step), 1))
		if pods := c.steps[step-1].of(c.replicas); c.col.adds() {
			c.seen.await(c, fmt.Sprintf("the stable pods beside %d new ones", pods), func(now map[string][]string) bool {
				return len(now["app:1"]) == c.col.stays(c.replicas, pods) && len(now["app:2"]) == pods
			})
		}
	}}
}

// finalising is a release whose steps are all approved, and whose last pods are not ready.
func finalising() moment {
	return moment{name: "finalising", epoch: 1, sick: true, reach: func(c *cell) {
		ready := c.steps[len(c.steps)-1].of(c.replicas)
		c.seen.cure(ready)
		c.releaseSick("app:2")
		c.approveUntil("app:2", 1, "finalising", inState(string(rollout.StateFinalising)))
		c.seen.await(c, "the last pods", func(pods map[string][]string) bool { return len(pods["app:2"]) > ready })
	}}
}

// promoted is a release that a user promotes at its second step. Two of its other pods are not ready, because the
// owner's budget lets a release end with one unready pod.
func promoted() moment {
	return moment{name: "promoted", epoch: 1, sick: true, reach: func(c *cell) { c.promoteSick(2) }}
}

// promoteSick releases app:2 and promotes it at a step. Only the pods of that step get ready, and others come.
func (c *cell) promoteSick(step int) {
	c.Helper()
	ready := c.steps[step-1].of(c.replicas)
	c.seen.cure(ready)
	c.releaseSick("app:2")
	c.climb(step)
	c.await(fmt.Sprintf("paused at step %d", step), pausedAt(int32(step), 1))
	c.free("app:2")
	c.command(api.CommandPromote)
	c.await("finalising", inState(string(rollout.StateFinalising)))
	c.seen.await(c, "more pods", func(pods map[string][]string) bool { return len(pods["app:2"]) > ready })
}

// stopped is a release that a user has aborted at its second step.
func stopped() moment {
	return moment{name: "aborted", epoch: 1, reach: func(c *cell) {
		paused(2).reach(c)
		c.command(api.CommandAbort)
		c.await("aborted", aborted)
	}}
}

// inRelease returns all moments of a release.
func inRelease() []moment {
	return []moment{initializing(), upgrading(1), paused(1), upgrading(2), paused(2), paused(3), finalising(), stopped()}
}

// inSteps returns the moments in which a step is under way.
func inSteps() []moment { return []moment{upgrading(1), paused(1), upgrading(2), paused(2), paused(3)} }

// atPauses returns the moments in which a step waits for its approval.
func atPauses() []moment { return []moment{paused(1), paused(2), paused(3)} }

// unblock removes the obstacle that keeps the moment's release from going on by itself.
func (c *cell) unblock(m moment) {
	c.Helper()
	if m.sick {
		c.seen.cure(none)
	}
	if m.frozen {
		c.spec(`{"strategy":{"paused":null}}`)
	}
}
