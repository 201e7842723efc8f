package matrix

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

// plans are changes of the steps during a release.
func plans() []event {
	change := func(steps []step) func(*cell, moment) end {
		return func(c *cell, m moment) end {
			before := c.rollout(c.get(api.RolloutResource(), "app")).Status.Sluice.PauseSeq
			c.steps = steps
			c.allow("app:2", m.step)
			if err := c.replan(steps); err != nil {
				c.Fatal(err)
			}
			c.unblock(m)
			c.await(fmt.Sprintf("step %d paused anew", m.step), func(r *api.Rollout) bool {
				return pausedAt(int32(m.step), 1)(r) && r.Status.Sluice.PauseSeq > before
			})
			c.finish("app:2", 1)
			return healthy("app:2")
		}
	}
	refused := func(steps []step) func(*cell, moment) end {
		return func(c *cell, m moment) end {
			err := c.replan(steps)
			if err == nil || !strings.Contains(err.Error(), "Amount of Rollout steps are immutable") {
				c.Errorf("another number of steps is answered with %v", err)
			}
			c.unblock(m)
			c.finish("app:2", 1)
			return healthy("app:2")
		}
	}
	return []event{
		{name: "step raised", meaning: "The current step starts over with the new plan and gets its additional pods. An earlier approval does not count for it.",
			at: inSteps(), take: change([]step{{"2", 30}, {"3", 60}, {"4", 100}})},
		{name: "step lowered", meaning: "As for a raised step, but existing pods stay. The traffic follows the plan.",
			at: []moment{upgrading(2), paused(2)}, take: change([]step{{"1", 5}, {"1", 10}, {"2", 15}})},
		{name: "steps reordered", meaning: "The release stays at the number of its step. The step starts over with the values that the new plan has at this number.",
			at: atPauses(), take: change([]step{{"50%", 50}, {"1", 20}, {"3", 80}})},
		{name: "step inserted", meaning: "The API server refuses the change while a release is under way, and its message names the alternative. The release follows its old plan.",
			at: inSteps(), take: refused([]step{{"1", 10}, {"1", 20}, {"50%", 50}, {"3", 80}})},
		{name: "step deleted", meaning: "The API server refuses the change while a release is under way, and its message names the alternative. The release follows its old plan.",
			at: inSteps(), take: refused([]step{{"50%", 50}, {"3", 80}})},
		{name: "steps changed before the release", meaning: "The release follows the new plan.",
			at: []moment{idle(), initializing()}, take: func(c *cell, m moment) end {
				c.steps = []step{{"2", 30}, {"3", 60}, {"4", 100}}
				if err := c.replan(c.steps); err != nil {
					c.Fatal(err)
				}
				c.release("app:2")
				c.unblock(m)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "pauses given a duration", meaning: "A pause that becomes `duration: 0` approves its step, and the release goes on by itself.",
			at: []moment{paused(1), upgrading(2), paused(3)}, take: func(c *cell, m moment) end {
				c.free("app:2")
				text := strings.ReplaceAll(c.col.steps(c.steps), "}", ", pause: {duration: 0}}")
				if err := c.resteps(text); err != nil {
					c.Fatal(err)
				}
				c.unblock(m)
				c.await("the end", healthyAfter(1))
				return healthy("app:2")
			}},
	}
}

// replan gives the Rollout other steps.
func (c *cell) replan(steps []step) error { return c.resteps(c.col.steps(steps)) }

func (c *cell) resteps(flow string) error {
	list, err := yaml.YAMLToJSON([]byte(flow))
	if err != nil {
		return err
	}
	return c.patch(api.RolloutResource(), "app", fmt.Sprintf(`{"spec":{"strategy":{%q:{"steps":%s}}}}`, c.col.style, list))
}
