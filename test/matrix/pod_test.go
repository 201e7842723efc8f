package matrix

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// podTroubles are events that happen to pods.
func podTroubles() []event {
	return []event{
		{name: "pods never ready", meaning: "The step waits, and the status shows the reason. No traffic goes to its pods, and executors write nothing meanwhile. Then the owner rolls back or releases a better version.",
			at: []moment{upgrading(1), upgrading(2)}, take: func(c *cell, m moment) end {
				c.quiet(false)
				c.unrouted(m)
				c.back()
				return canceled("app:1")
			}},
		{name: "pods ready late", meaning: "The step goes on when the pods are ready.",
			at: []moment{upgrading(1), upgrading(2), finalising()}, take: func(c *cell, m moment) end {
				c.unblock(m)
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "pods flap", meaning: "A step that is approved while its pods are not ready waits until they are ready again.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.flap("app:2", "true")
				c.approve("app:2", m.step)
				c.quietly()
				if r := c.rollout(c.get(api.RolloutResource(), "app")); int(r.Status.CurrentStepIndex) != m.step || r.Status.Sluice.State == "Finalising" {
					c.Errorf("the release left step %d with pods that are not ready: %s at step %d", m.step, r.Status.Sluice.State, r.Status.CurrentStepIndex)
				}
				c.flap("app:2", "null")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "stable pods flap", meaning: "The release does not depend on stable pods: it goes on.",
			at: atPauses(), take: func(c *cell, m moment) end {
				c.flap("app:1", "true")
				c.flap("app:1", "null")
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "pods evicted", meaning: "The workload's controller replaces them with pods of the same version. The step stays.",
			at: append(atPauses(), upgrading(1), upgrading(2), stopped()), take: func(c *cell, m moment) end {
				before, gone := c.evict()
				if m.sick { // new pods are not ready, so others may have to wait for them
					before = nil
				}
				c.replaced(before, gone)
				if m.name == stopped().name {
					c.takenBack()
					c.quiet(false)
					c.back()
					return canceled("app:1")
				}
				if m.sick {
					c.quietly()
					c.unblock(m)
				}
				c.await("still in its step", pausedAt(int32(m.step), 1))
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "node lost", meaning: "As for evicted pods: the controller creates them on another node, in the same versions.",
			at: atPauses(), made: onNodesOfItsOwn, take: func(c *cell, m moment) end {
				c.loseNode()
				c.await("still paused", pausedAt(int32(m.step), 1))
				c.finish("app:2", 1)
				return healthy("app:2")
			}},
		{name: "node silent", meaning: "The pods of the node are not ready and get no traffic. The step waits for them, even if it is approved, and goes on when the node is back. No controller replaces them meanwhile.",
			at: []moment{upgrading(2), paused(2)}, made: onNodesOfItsOwn, take: nodeSilent},
	}
}

// unrouted checks that a step without all its pods has not got its traffic.
func (c *cell) unrouted(m moment) {
	c.Helper()
	traffic := 0
	if m.step > 1 {
		traffic = c.steps[m.step-2].traffic
	}
	if c.col.routed {
		c.weight(traffic)
	}
}

// flap makes all pods of a version unready, or ready again, and waits until their workload has seen it.
func (c *cell) flap(image, never string) {
	c.Helper()
	names := c.seen.running(image)
	for _, name := range names {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, controlplane.NeverReady, never)
		if never == "true" {
			patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, controlplane.NeverReady)
		}
		if _, err := c.client(pods()).Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	name, ready := "app", int64(0)
	if c.col.beside && image != "app:1" {
		name = "app-canary"
	} else if !c.col.beside {
		ready = int64(len(c.seen.running("app:1")) + len(c.seen.running("app:2")) - len(names))
	}
	if never == "null" {
		ready += int64(len(names))
	}
	c.object(c.col.resource, name, fmt.Sprintf("%d pods ready", ready), func(u *unstructured.Unstructured) bool {
		return u != nil && c.col.ready(u) == ready
	})
}

// evict evicts every pod of the new version and one stable pod. It returns the number of pods of each version before,
// and the UIDs of the evicted ones.
func (c *cell) evict() (before map[string]int, gone map[string]bool) {
	c.Helper()
	client := c.kube()
	before, gone = map[string]int{}, map[string]bool{}
	for _, image := range []string{"app:1", "app:2"} {
		pods := c.seen.podsOf(image)
		before[image] = len(pods)
		if image == "app:1" {
			pods = pods[:1]
		}
		for _, pod := range pods {
			gone[string(pod.GetUID())] = true
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.GetName(), Namespace: c.ns}}
			if err := client.PolicyV1().Evictions(c.ns).Evict(c.Context(), eviction); err != nil {
				c.Fatal(err)
			}
		}
	}
	return before, gone
}

// replaced waits until as many pods of each version run as before, and no evicted one.
func (c *cell) replaced(before map[string]int, gone map[string]bool) {
	c.Helper()
	c.seen.await(c, fmt.Sprintf("%v without %v", before, gone), func(pods map[string][]string) bool {
		for image, n := range before {
			if len(pods[image]) != n {
				return false
			}
		}
		for _, uids := range pods {
			if slices.ContainsFunc(uids, func(uid string) bool { return gone[uid] }) {
				return false
			}
		}
		return true
	})
}
