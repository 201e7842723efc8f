package planner

import (
	"testing"

	"sluice.dev/sluice/pkg/rollout"
)

// If the number of steps changes during a release, the release goes on at the step that its pods belong to. The edit alone does not release the version
// to all.
func TestTheStepOfANewPlan(t *testing.T) {
	t.Parallel()
	pods := func(list ...int32) (steps []rollout.Step) {
		for _, n := range list {
			steps = append(steps, rollout.Step{Replicas: rollout.Amount{Value: n}, Manual: true})
		}
		return append(steps, rollout.Step{Replicas: rollout.Amount{Value: 100, Percent: true}, Manual: true})
	}
	for name, c := range map[string]struct {
		known         int32 // the number of steps in the status
		current, have int32
		steps         []rollout.Step
		want          int32
	}{
		"the same number of steps keeps the current one":       {4, 2, 5, pods(1, 2, 3), 2},
		"a status without the number keeps the current one":    {0, 2, 5, pods(1, 2), 2},
		"a step more before the current one":                   {3, 1, 4, pods(2, 4, 6), 2},
		"a step more after the current one":                    {3, 1, 4, pods(4, 5, 6), 1},
		"a step less, and the current one still has the pods":  {5, 2, 4, pods(2, 6), 2},
		"a step less, and a later one has the pods":            {5, 1, 4, pods(2, 6), 2},
		"a step less, and an earlier one has the pods":         {5, 4, 4, pods(6, 8), 1},
		"no step but the last has the pods":                    {5, 3, 8, pods(2, 6), 2},
		"no step but the last has the pods, and it is current": {5, 3, 10, pods(2, 6), 2},
		"only the last step is left":                           {5, 3, 6, pods(), 1},
		"the number of the current step is gone":               {6, 6, 5, pods(2, 5), 2},
		"a user has set the step in the status to 0":           {4, 0, 5, pods(2, 5), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := aRelease()
			g.Spec.Steps = c.steps
			g.Workload.DesiredReplicas = 10
			g.Status.Sluice.Step, g.Status.Sluice.Steps = c.current, c.known
			g.Canary = &rollout.Canary{Ours: true, Epoch: g.Status.Sluice.Epoch, Revision: "v2", Replicas: c.have}
			if got := newPlanner(g.Seen, g.now).stepOfNewPlan(); got != c.want {
				t.Errorf("the release goes on at step %d, want %d", got, c.want)
			}
		})
	}
}

// A release that is held while its steps are edited goes on at the same step as one that is not held.
func TestAPausedReleaseFollowsItsNewPlanAfterwards(t *testing.T) {
	t.Parallel()
	g := aRelease().AtStep(2).Paused()
	g.Workload.DesiredReplicas = 10
	m, c := g.Status.Sluice, g.Status.Common()
	m.Step, m.Steps, m.PlanHash, c.CurrentStepIndex, c.NextStepIndex = 5, 6, "the old plan", 5, 6
	g.Spec.Steps = []rollout.Step{{Replicas: rollout.Amount{Value: 5}, Manual: true}, {Replicas: rollout.Amount{Value: 8}, Manual: true}, {Replicas: rollout.Amount{Value: 100, Percent: true}, Manual: true}}
	g.Canary = &rollout.Canary{Ours: true, Epoch: g.Status.Sluice.Epoch, Revision: "v2", Replicas: 5, Updated: 5, Available: 5}
	g.Spec.Paused = true
	held := g.Planned()
	if m := held.Status.Sluice; m.Step != 5 || m.Steps != 6 {
		t.Errorf("while it is paused, the status has step %d of %d, want 5 of 6", m.Step, m.Steps)
	}
	held.Spec.Paused = false
	if m := Plan(held.Seen, held.now).Status.Sluice; m.Step != 1 || m.Steps != 3 {
		t.Errorf("it goes on at step %d of %d, want 1 of 3", m.Step, m.Steps)
	}
}
