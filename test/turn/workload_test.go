package turn

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// workloads are turns of the workload's own life.
func workloads() []turn {
	return []turn{
		{name: "workload deleted", meaning: "What was made for the release goes, the routes are given back, and the Rollout is Initial until there is a workload again.",
			at: always(), take: func(c *cell, m moment) end {
				c.deleteWorkload()
				c.await("held for a workload", world.HeldFor(rollout.HoldWorkloadMissing))
				return end{phase: api.PhaseInitial}
			}},
		{name: "workload deleted and made again", meaning: "The new workload runs at once, is adopted, and its next change is a release.",
			at: always(), take: func(c *cell, m moment) end {
				c.deleteWorkload()
				c.runs(c.col.workloadManifest(c.replicas))
				c.settled("app:1")
				c.unblock(m)
				c.adopts()
				epoch := c.rollout(c.get(api.RolloutResource(), "app")).Status.Sluice.Epoch
				c.release("app:3")
				c.finish("app:3", epoch+1)
				return healthy("app:3")
			}},
		{name: "workload at 0 replicas changed", meaning: "There is nothing to release from: the change is not held, and the workload runs it when it is scaled up.",
			at: []moment{idle()}, made: func(c *cell) { c.replicas = 0; c.adopted() }, take: func(c *cell, _ moment) end {
				c.change("app:2", "null")
				c.settled("app:2")
				c.scale(replicas, "", 0)
				return end{phase: api.PhaseHealthy, image: "app:2"}
			}},
		{name: "manifest applied again", meaning: "A manifest that knows nothing of the hold takes nothing of it off, and replaces no pod.",
			at: append(inSteps(), stopped()), take: func(c *cell, m moment) end {
				c.reapply()
				if m.name == stopped().name {
					c.back()
					return canceled("app:1")
				}
				c.unblock(m)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
	}
}

// reapply replaces the workload by its owner's manifest of the version under way, as a GitOps tool does.
func (c *cell) reapply() {
	c.Helper()
	before := fmt.Sprint(c.seen.ids("app:1"), c.seen.ids("app:2"))
	c.replace()
	c.quiet(false)
	if after := fmt.Sprint(c.seen.ids("app:1"), c.seen.ids("app:2")); after != before {
		c.Errorf("the pods were %s and are %s", before, after)
	}
}

// scalings change the number of pods during a release.
func scalings() []turn {
	to := func(n int) func(*cell, moment) end {
		return func(c *cell, m moment) end {
			before := len(c.seen.running("app:2"))
			if !c.col.adds() {
				c.seen.allow("app:2", limit{c.grown(before, n), 0})
			}
			c.scale(n, "app:2", m.step)
			c.unblock(m)
			c.await("paused", pausedAt(int32(m.step), 1))
			want := max(before, c.steps[m.step-1].of(n))
			c.seen.await(c, fmt.Sprintf("the pods of step %d of %d", m.step, n), func(pods map[string][]string) bool {
				stable, released := len(pods["app:1"]), len(pods["app:2"])
				return stable == c.col.stays(n, released) && (released == want || !c.col.adds())
			})
			c.finish("app:2", 1)
			return healthy("app:2")
		}
	}
	return []turn{
		{name: "scaled up", meaning: "A step in percent grows with the workload, a step in pods stays; both versions together are what the workload wants (where the stable pods stay beside the new ones: the stable pods). In partition style the native controller shares new pods out in proportion, so that a step in pods may get more; the traffic stays.",
			at: inSteps(), take: to(8)},
		{name: "scaled down", meaning: "The stable pods go down; in canary and blue-green style pods of the new version stay until the end.",
			at: inSteps(), take: to(2)},
		{name: "scaled by an autoscaler", meaning: "As by hand: up, then down below where it began. The autoscaler sees the workload only, not the pods of a canary beside it.",
			at: atPauses(), take: autoscaled},
		{name: "scaled to 0 and back", meaning: "At 0 the release waits for replicas; then it goes on. In partition style the stable version comes back first, and the step is reached anew.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.scale(0, "app:2", m.step)
				c.seen.await(c, "no stable pods", func(pods map[string][]string) bool { return len(pods["app:1"]) == 0 })
				c.object(c.col.resource, "app", "no pods", func(u *unstructured.Unstructured) bool { return c.col.total(u) == 0 })
				c.quietly()
				c.scale(replicas, "app:2", m.step)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
	}
}

// autoscaled has a HorizontalPodAutoscaler move the workload up and down. It needs no metrics to keep within its bounds.
func autoscaled(c *cell, m moment) end {
	hpas := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	c.create(hpas, fmt.Sprintf(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: app},
		spec: {scaleTargetRef: {apiVersion: %s, kind: %s, name: app}, minReplicas: 8, maxReplicas: 8}}`, c.col.apiVersion(), c.col.kind))
	for _, n := range []int{8, 2} {
		if !c.col.adds() {
			c.seen.allow("app:2", limit{c.grown(len(c.seen.running("app:2")), n), 0})
		}
		c.replicas = n
		c.allow("app:2", m.step)
		if err := c.patch(hpas, "app", fmt.Sprintf(`{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, n, n)); err != nil {
			c.Fatal(err)
		}
		c.object(c.col.resource, "app", fmt.Sprintf("%d replicas", n), func(u *unstructured.Unstructured) bool { return number(u, "spec", "replicas") == int64(n) })
		c.seen.await(c, fmt.Sprintf("%d pods", n), func(pods map[string][]string) bool {
			all := len(pods["app:1"])
			if !c.col.beside {
				all += len(pods["app:2"])
			}
			return all == n
		})
		c.await("paused", pausedAt(int32(m.step), 1))
	}
	c.finish("app:2", 1)
	return healthy("app:2")
}

// identities are turns of the rollout-id, which says what counts as a release.
func identities() []turn {
	id := func(c *cell, value string) {
		c.Helper()
		if err := c.patch(c.col.resource, "app", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelRolloutID, value)); err != nil {
			c.Fatal(err)
		}
		c.before[c.col.resource.Resource].SetLabels(map[string]string{api.LabelRolloutID: value})
	}
	return []turn{
		{name: "rollout-id changed alone", meaning: "There is nothing new to run: at rest the Rollout notes the id and is Healthy; a release under way goes on under the new id.",
			at: []moment{idle(), upgrading(1), paused(2), paused(3)}, take: func(c *cell, m moment) end {
				id(c, "second")
				c.await("the id noted", func(r *api.Rollout) bool { return r.Status.Common().ObservedRolloutID == "second" })
				if m.step == 0 {
					return end{phase: api.PhaseHealthy, image: "app:1"}
				}
				c.unblock(m)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "template changed under the same rollout-id", meaning: "By contract that is no release: the change rolls out natively.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				id(c, "second")
				c.await("the id noted", func(r *api.Rollout) bool {
					return world.Healthy(r) && r.Status.Common().ObservedRolloutID == "second"
				})
				c.object(c.col.resource, "app", "to be let go", func(u *unstructured.Unstructured) bool {
					return u.GetAnnotations()[api.AnnotationInProgressing] == ""
				})
				c.change("app:2", "null")
				return end{phase: api.PhaseHealthy, image: "app:2"}
			}},
		{name: "template and rollout-id changed", meaning: "A release, known by its id.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.allow("app:2", 1)
				body := fmt.Sprintf(`{"metadata":{"labels":{%q:"second"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:2"}]}}}}`, api.LabelRolloutID)
				if err := c.patch(c.col.resource, "app", body); err != nil {
					c.Fatal(err)
				}
				c.before[c.col.resource.Resource].SetLabels(map[string]string{api.LabelRolloutID: "second"})
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
	}
}
