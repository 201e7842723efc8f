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

// workloads are events in the life of the workload.
func workloads() []event {
	return []event{
		{name: "workload deleted", meaning: "The executor deletes the objects created for the release and restores the routes. The Rollout is Initial until the workload exists again.",
			at: always(), take: func(c *cell, m moment) end {
				c.deleteWorkload()
				c.await("held for a workload", world.HeldFor(rollout.ReasonWorkloadMissing))
				return end{phase: api.PhaseInitial}
			}},
		{name: "workload deleted and made again", meaning: "The new workload runs at once, and the executor adopts it. Its next change is a release.",
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
		{name: "workload at 0 replicas changed", meaning: "The workload has no pods to release from. The change is not held, and the workload runs it when it is scaled up.",
			at: []moment{idle()}, made: func(c *cell) { c.replicas = 0; c.adopted() }, take: func(c *cell, _ moment) end {
				c.change("app:2", "null")
				c.settled("app:2")
				c.scale(replicas, "", 0)
				return end{phase: api.PhaseHealthy, image: "app:2"}
			}},
		{name: "manifest applied again", meaning: "The owner applies the manifest of the workload again, without the fields and marks that hold the workload. The hold stays, and no pod is replaced.",
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

// reapply replaces the workload with its owner's manifest of the version under way, as a GitOps tool does.
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
		{name: "scaled up", meaning: "A step in percent grows with the workload, and a step in pods does not. Both versions together have as many pods as the workload has replicas. If the new pods come in addition to all stable pods, the stable version alone has that many. In a Deployment with pods of both versions, the Deployment controller distributes additional pods in proportion. A step in pods may then get more pods, and its traffic stays. After an abort, only the stable version grows.",
			at: append(inSteps(), finalising(), stopped()), take: to(8)},
		{name: "scaled down", meaning: "The number of stable pods falls. In canary and blue-green style, pods of the new version stay until the end. There is one exception: in a Deployment in blue-green style, the number of new pods falls in proportion. If a step in place would leave no stable pod, the release is stalled until the owner accepts the step.",
			at: append(inSteps(), finalising(), stopped()), take: to(2)},
		{name: "scaled by an autoscaler", meaning: "An autoscaler scales the workload up, and then down below the first number. The result is the same as after scaling by hand. The autoscaler counts only the pods of the workload, not the pods of a separate canary. In blue-green style, and with constant capacity, the executor disables the autoscaler until the end of the release.",
			at: append(atPauses(), upgrading(2), finalising()), made: beforeItsRelease, take: autoscaled},
		{name: "scaled to one pod and back", meaning: "With one pod, a step in place would leave no stable pod. Such a step is stalled, and goes on when the owner scales back.",
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
		{name: "scaled to 0 and back", meaning: "At 0 replicas the release waits. It goes on when the owner scales the workload up. In partition and blue-green style the stable version comes back first, and the workload reaches the step again.",
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

// full reports whether the step replaces the last stable pod in place although it asks for less. A last step without
// traffic asks for all pods.
func (c *cell) full(s step) bool {
	return !c.col.adds() && s.of(c.replicas) == c.replicas && (c.col.routed || s != c.steps[len(c.steps)-1])
}

// accept makes the owner accept each step that replaces all pods in place although it asks for less.
func (c *cell) accept() {
	c.Helper()
	if c.col.adds() {
		return
	}
	if err := c.resteps(strings.ReplaceAll(c.col.steps(c.steps), "}", ", allowFullStep: true}")); err != nil {
		c.Fatal(err)
	}
}

// scaledOutsideSteps scales a release that is being finalised, or an aborted release that has only its stable pods.
func scaledOutsideSteps(c *cell, m moment, n int) end {
	if m.name == finalising().name {
		n = min(n, 6) // a workload with surge replicas has 8 by now, and asking for 8 changes nothing
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

// beforeItsRelease creates the autoscaler before the release if the executor removes it from the workload. The executor
// sees a later one only after seconds.
func beforeItsRelease(c *cell) {
	c.adopted()
	if c.col.parks() {
		c.autoscaler(c.replicas)
	}
}

// autoscaled has a HorizontalPodAutoscaler scale the workload up and down.
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

// autoscalerParked has a HorizontalPodAutoscaler want more pods while it is removed from its workload. It gets them
// after the release.
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

// autoscaler creates a HorizontalPodAutoscaler that keeps the workload at n pods. It needs no metrics to keep within
// its bounds.
func (c *cell) autoscaler(n int) {
	c.Helper()
	c.create(autoscalers(), fmt.Sprintf(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: app},
		spec: {scaleTargetRef: {apiVersion: %s, kind: %s, name: app}, minReplicas: %d, maxReplicas: %d}}`, c.col.apiVersion(), c.col.kind, n, n))
}

// autoscale sets another number in the autoscaler.
func (c *cell) autoscale(n int) {
	c.Helper()
	if err := c.patch(autoscalers(), "app", fmt.Sprintf(`{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, n, n)); err != nil {
		c.Fatal(err)
	}
}

// identities are events of the rollout-id. With the id of the stable version, OpenKruise does not hold a change of the
// template.
func identities() []event {
	return []event{
		{name: "rollout-id changed alone", meaning: "The workload has no new version. An idle Rollout records the id and is Healthy. A release under way goes on under the new id. After the last approval, the status gets the id at the end of the release. After an abort, it gets the id at the retry.",
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
		{name: "template changed under the rollout-id of the stable version", meaning: "By OpenKruise's rule this change is no release. The workload's controller rolls it out without steps, and Sluice records an Event.",
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
		{name: "template and rollout-id changed", meaning: "The change is a release, identified by its id.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.releaseAs("app:2", "second")
				c.await("step 1", pausedAt(1, 1))
				if id := c.rollout(c.get(api.RolloutResource(), "app")).Status.Common().ObservedRolloutID; id != "second" {
					c.Errorf("the release is known as %q", id)
				}
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "template changed under the same label", meaning: "The rollout-id is a label of the workload and stays the same. The policy holds every change of the template nevertheless.",
			at: []moment{idle()}, take: func(c *cell, _ moment) end {
				c.labelAs("constant")
				c.release("app:2")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "taken back and applied again every second", meaning: "A GitOps tool applies a version again after its owner has rolled it back. Sluice holds the version regardless of its rollout-id, and releases it from step 1. An aborted release stays aborted.",
			at: append(atPauses(), stopped()), take: func(c *cell, m moment) end {
				id := "second"
				if m.step == 1 {
					id = ""
				}
				return c.appliedAgain(m, id, m.step == 3)
			}},
		{name: "taken back and applied again every second without an id", meaning: "As in the preceding section, but the workload has no annotation with a rollout-id. In the row of step 2, the workload has a label with a rollout-id, which stays the same. The owner rolls back as `sluice undo` does.",
			at: []moment{paused(2), paused(3), stopped()}, take: func(c *cell, m moment) end {
				if m.step == 2 {
					c.labelAs("constant")
				}
				return c.appliedAgain(m, "", true)
			}},
	}
}

// appliedAgain rolls app:2 back, as sluice undo does or by its manifest. A tool applies it every second with a
// rollout-id, "" for none. An aborted release is rolled back only after the tool has applied the version twice.
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

// labelAs sets the rollout-id of the workload by its label.
func (c *cell) labelAs(id string) {
	c.Helper()
	if err := c.patch(c.col.resource, "app", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelRolloutID, id)); err != nil {
		c.Fatal(err)
	}
	c.before[c.col.resource.Resource].SetLabels(map[string]string{api.LabelRolloutID: id})
}

// identify sets the rollout-id of the workload.
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

// releaseAs releases a version with a rollout-id.
func (c *cell) releaseAs(image, id string) {
	c.Helper()
	c.allow(image, 1)
	if err := c.patch(c.col.resource, "app", templatePatch(image, map[string]any{api.AnnotationRolloutID: id})); err != nil {
		c.Fatal(err)
	}
	c.identify(id)
}

// templatePatch returns the merge patch that sets an image and annotations of a workload. It removes annotations whose
// value is nil.
func templatePatch(image string, annotations map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}},
	})
	if err != nil {
		panic(err) // all values can be encoded as JSON
	}
	return string(body)
}

// everySecond patches the workload every second, as a GitOps tool does. The returned function waits for n more patches,
// and then stops.
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
