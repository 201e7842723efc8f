package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// workloads are events of the workload's own life.
func workloads() []event {
	return []event{
		{name: "workload deleted", meaning: "What was made for the release goes, the executor restores the routes, and the Rollout is Initial until there is a workload again.",
			at: always(), take: func(c *cell, m moment) end {
				c.deleteWorkload()
				c.await("held for a workload", world.HeldFor(rollout.ReasonWorkloadMissing))
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
func scalings() []event {
	to := func(n int) func(*cell, moment) end {
		return func(c *cell, m moment) end {
			if m.step == 0 {
				return scaledOutsideSteps(c, m, n)
			}
			before := len(c.seen.running("app:2"))
			want := max(before, c.steps[m.step-1].of(n))
			if c.col.shares() {
				want = max(c.grown(before, n), c.steps[m.step-1].of(n))
			}
			if !c.col.adds() || c.col.shares() {
				c.seen.allow("app:2", limit{c.grown(before, n), 0})
			}
			c.scale(n, "app:2", m.step)
			c.unblock(m)
			if c.full(c.steps[m.step-1]) {
				c.await("held", world.HeldFor(rollout.ReasonFullStep))
			}
			c.accept()
			c.await("paused", pausedAt(int32(m.step), 1))
			c.seen.await(c, fmt.Sprintf("the pods of step %d of %d", m.step, n), func(pods map[string][]string) bool {
				stable, released := len(pods["app:1"]), len(pods["app:2"])
				return stable == c.col.stays(n, released) && (released == want || !c.col.adds() && released >= c.steps[m.step-1].of(n))
			})
			c.finish("app:2", 1)
			return healthy("app:2")
		}
	}
	return []event{
		{name: "scaled up", meaning: "A step in percent grows with the workload, a step in pods stays; both versions together are what the workload wants (where the stable pods stay beside the new ones: the stable pods). The native controller of a Deployment of both versions shares new pods out in proportion, so that a step in pods may get more; the traffic stays. What was aborted is scaled in its stable version.",
			at: append(inSteps(), finalising(), stopped()), take: to(8)},
		{name: "scaled down", meaning: "The stable pods go down; in canary and blue-green style pods of the new version stay until the end, but for those of a Deployment in blue-green style, which go down in proportion. A step in place that would leave no stable pod is held until its owner accepts it.",
			at: append(inSteps(), finalising(), stopped()), take: to(2)},
		{name: "scaled by an autoscaler", meaning: "As by hand: up, then down below where it began. The autoscaler sees the workload only, not the pods of a canary beside it. In blue-green style, and where the workload gives up pods, it is taken off the workload meanwhile, and scales it after the release.",
			at: append(atPauses(), upgrading(2), finalising()), made: beforeItsRelease, take: autoscaled},
		{name: "scaled to one pod and back", meaning: "A step in place cannot be carried out then, and is held; it goes on with the pods that come back.",
			at: []moment{paused(1)}, take: func(c *cell, m moment) end {
				c.scale(1, "app:2", m.step)
				if !c.col.adds() {
					c.await("held", world.HeldFor(rollout.ReasonFullStep))
				}
				c.seen.await(c, "one stable pod", func(pods map[string][]string) bool {
					return len(pods["app:1"]) == 1 && (!c.col.adds() || len(pods["app:2"]) == c.steps[m.step-1].of(1))
				})
				c.resting()
				c.quietly()
				if c.col.shares() {
					c.seen.allow("app:2", limit{c.grown(len(c.seen.running("app:2")), replicas), 0})
				}
				c.scale(replicas, "app:2", m.step)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "scaled to 0 and back", meaning: "At 0 the release waits for replicas; then it goes on. In partition and blue-green style the stable version comes back first, and the step is reached anew.",
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

// full reports whether the step replaces the last stable pod in place although it asks for less. A step without traffic that is the last one asks
// for all that there are.
func (c *cell) full(s step) bool {
	return !c.col.adds() && s.of(c.replicas) == c.replicas && (c.col.routed || s != c.steps[len(c.steps)-1])
}

// accept has the owner accept each step that replaces all pods in place although it asks for less.
func (c *cell) accept() {
	c.Helper()
	if c.col.adds() {
		return
	}
	if err := c.resteps(strings.ReplaceAll(c.col.steps(c.steps), "}", ", allowFullStep: true}")); err != nil {
		c.Fatal(err)
	}
}

// scaledOutsideSteps scales a release that is being finished, or one that was aborted, of which nothing but the stable pods is left.
func scaledOutsideSteps(c *cell, m moment, n int) end {
	if m.name == finalising().name {
		n = min(n, 6) // a widened workload has been told 8 by now, and who asks for that asks for nothing
	}
	c.scale(n, "", 0)
	if m.name == stopped().name {
		c.takenBack()
		c.quiet(false)
		c.accept()
		c.command(api.CommandRetry)
		c.finish("app:2", 2)
		return healthy("app:2")
	}
	c.unblock(m)
	c.await("the end", healthyAfter(1))
	return healthy("app:2")
}

// beforeItsRelease makes the autoscaler before the release where that takes it off the workload: one that comes later is seen seconds later.
func beforeItsRelease(c *cell) {
	c.adopted()
	if c.col.parks() {
		c.autoscaler(c.replicas)
	}
}

// autoscaled has a HorizontalPodAutoscaler move the workload up and down.
func autoscaled(c *cell, m moment) end {
	if c.col.parks() {
		return autoscalerParked(c, m)
	}
	c.autoscaler(c.replicas)
	c.accept()
	for _, n := range []int{8, 2} {
		if !c.col.adds() {
			c.seen.allow("app:2", limit{c.grown(len(c.seen.running("app:2")), n), 0})
		}
		c.replicas = n
		if m.step > 0 {
			c.allow("app:2", m.step)
		}
		c.autoscale(n)
		c.object(c.col.resource, "app", fmt.Sprintf("%d replicas", n), func(u *unstructured.Unstructured) bool { return number(u, "spec", "replicas") == int64(n) })
		c.unblock(m)
		c.seen.await(c, fmt.Sprintf("%d pods", n), func(pods map[string][]string) bool {
			all := len(pods["app:1"])
			if !c.col.beside || m.step == 0 {
				all += len(pods["app:2"])
			}
			return all == n
		})
		if m.step > 0 {
			c.await("paused", pausedAt(int32(m.step), 1))
		}
	}
	c.finish("app:2", 1)
	return healthy("app:2")
}

// autoscalerParked has a HorizontalPodAutoscaler want more pods while it is taken off its workload. It gets them after the release.
func autoscalerParked(c *cell, m moment) end {
	target := func(name string) {
		c.Helper()
		c.object(autoscalers(), "app", "to scale "+name, func(u *unstructured.Unstructured) bool {
			scaled, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
			return scaled == name
		})
	}
	target("app-DisableByRollout")
	c.autoscale(8)
	c.unblock(m)
	if m.step > 0 {
		c.await("paused", pausedAt(int32(m.step), 1))
		released := c.steps[m.step-1].of(c.replicas)
		c.seen.await(c, "the pods of the step", func(pods map[string][]string) bool {
			return len(pods["app:2"]) == released && len(pods["app:1"]) == c.col.stays(c.replicas, released)
		})
		c.quiet(false)
	}
	c.finish("app:2", 1)
	target("app")
	c.replicas = 8
	return healthy("app:2")
}

func autoscalers() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
}

// autoscaler makes a HorizontalPodAutoscaler that keeps the workload at so many pods. It needs no metrics to keep within its bounds.
func (c *cell) autoscaler(n int) {
	c.Helper()
	c.create(autoscalers(), fmt.Sprintf(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: app},
		spec: {scaleTargetRef: {apiVersion: %s, kind: %s, name: app}, minReplicas: %d, maxReplicas: %d}}`, c.col.apiVersion(), c.col.kind, n, n))
}

// autoscale has it keep another number.
func (c *cell) autoscale(n int) {
	c.Helper()
	if err := c.patch(autoscalers(), "app", fmt.Sprintf(`{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, n, n)); err != nil {
		c.Fatal(err)
	}
}

// identities are events of the rollout-id, under which OpenKruise lets a change of the template through.
func identities() []event {
	return []event{
		{name: "rollout-id changed alone", meaning: "There is nothing new to run: at rest the Rollout notes the id and is Healthy; a release under way goes on under the new id; one that ends notes it when it has, one that was aborted when it is tried again.",
			at: []moment{idle(), upgrading(1), paused(1), upgrading(2), paused(2), paused(3), finalising(), stopped()}, take: func(c *cell, m moment) end {
				noted := func(r *api.Rollout) bool { return r.Status.Common().ObservedRolloutID == "second" }
				c.identify("second")
				switch m.name {
				case stopped().name:
					c.takenBack()
					c.quiet(false)
					c.command(api.CommandRetry)
					c.finish("app:2", 2)
				case finalising().name:
					c.quietly()
					c.unblock(m)
					c.await("the end", healthyAfter(1))
				}
				c.await("the id noted", noted)
				if m.epoch == 0 {
					return end{phase: api.PhaseHealthy, image: "app:1"}
				}
				if m.step > 0 {
					c.unblock(m)
					c.finish("app:2", 1)
				}
				return healthy("app:2")
			}},
		{name: "template changed under the rollout-id of the stable version", meaning: "By OpenKruise's rule this change is no release. The workload's controller rolls it out natively, and Sluice records an Event.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.releaseAs("app:2", "second")
				c.finish("app:2", 1)
				c.settled("app:2")
				c.free("app:3")
				c.change("app:3", "null")
				c.settled("app:3")
				c.told("under the rollout-id second of the stable version")
				return healthy("app:3")
			}},
		{name: "template and rollout-id changed", meaning: "A release, known by its id.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.releaseAs("app:2", "second")
				c.await("step 1", pausedAt(1, 1))
				if id := c.rollout(c.get(api.RolloutResource(), "app")).Status.Common().ObservedRolloutID; id != "second" {
					c.Errorf("the release is known as %q", id)
				}
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "template changed under the same label", meaning: "The label names the release and its pods. The policy holds every change of the template.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.labelAs("constant")
				c.release("app:2")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "taken back and applied again every second", meaning: "A tool applies a version again that its owner has taken back. Sluice holds the version, whatever its rollout-id, and releases it from step 1. A release that was aborted stays aborted.",
			at: append(atPauses(), stopped()), take: func(c *cell, m moment) end {
				id := "second"
				if m.step == 1 {
					id = ""
				}
				return c.appliedAgain(m, id, m.step == 3)
			}},
		{name: "taken back and applied again every second without an id", meaning: "The same without a rollout-id, and at the second step with a constant label in its place. The owner undoes the release as `sluice undo` does.",
			at: []moment{paused(2), paused(3), stopped()}, take: func(c *cell, m moment) end {
				if m.step == 2 {
					c.labelAs("constant")
				}
				return c.appliedAgain(m, "", true)
			}},
	}
}

// appliedAgain takes app:2 back, as sluice undo does or by its manifest, while a tool applies it every second with a rollout-id, "" for none. A
// release that was aborted is not taken back before the tool has applied it twice.
func (c *cell) appliedAgain(m moment, id string, undo bool) end {
	c.Helper()
	var annotations map[string]any
	if id != "" {
		c.identify(id)
		annotations = map[string]any{api.AnnotationRolloutID: id}
	}
	again := templatePatch("app:2", annotations)
	if m.step == 0 {
		c.everySecond(again)(2)
		c.takenBack()
		c.quiet(false)
		c.back()
		return canceled("app:1")
	}
	if undo {
		if err := c.patch(c.col.resource, "app", templatePatch("app:1", map[string]any{api.AnnotationRolloutID: nil})); err != nil {
			c.Fatal(err)
		}
	} else {
		c.back()
	}
	c.await("the version to be taken back", func(r *api.Rollout) bool { return r.Status.Sluice.FinaliseReason == api.FinaliseRollback })
	applied := c.everySecond(again)
	c.await("step 1 of another release", pausedAt(1, 2))
	applied(1)
	if c.col.routed {
		c.weight(c.steps[0].traffic)
	}
	c.finish("app:2", 2)
	return healthy("app:2")
}

// labelAs gives the workload a rollout-id by its label.
func (c *cell) labelAs(id string) {
	c.Helper()
	if err := c.patch(c.col.resource, "app", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelRolloutID, id)); err != nil {
		c.Fatal(err)
	}
	c.before[c.col.resource.Resource].SetLabels(map[string]string{api.LabelRolloutID: id})
}

// identify gives the workload a rollout-id.
func (c *cell) identify(id string) {
	c.Helper()
	if err := c.patch(c.col.resource, "app", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRolloutID, id)); err != nil {
		c.Fatal(err)
	}
	before := c.before[c.col.resource.Resource]
	annotations := before.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[api.AnnotationRolloutID] = id
	before.SetAnnotations(annotations)
}

// releaseAs is release of a version with a rollout-id.
func (c *cell) releaseAs(image, id string) {
	c.Helper()
	c.allow(image, 1)
	if err := c.patch(c.col.resource, "app", templatePatch(image, map[string]any{api.AnnotationRolloutID: id})); err != nil {
		c.Fatal(err)
	}
	c.identify(id)
}

// templatePatch is the merge patch that gives a workload an image, and annotations, of which those that are nil go.
func templatePatch(image string, annotations map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}},
	})
	if err != nil {
		panic(err) // there is nothing in it that JSON does not have
	}
	return string(body)
}

// everySecond patches the workload every second, as a GitOps tool does that applies its manifest again. The function waits until so many more
// patches are made, and ends it.
func (c *cell) everySecond(patch string) (applied func(n int)) {
	ctx, stop := context.WithCancel(c.Context())
	c.Cleanup(stop)
	made, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for ctx.Err() == nil {
			if err := c.patch(c.col.resource, "app", patch); err != nil {
				failed <- err
				return
			}
			select {
			case made <- struct{}{}:
			default:
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return func(n int) {
		c.Helper()
		for range n {
			select {
			case <-made:
			case err := <-failed:
				c.Fatal(err)
			case <-c.patience().Done():
				c.Fatal("the workload was not patched in time")
			}
		}
		stop()
		if err := <-failed; err != nil {
			c.Fatal(err)
		}
	}
}
