package matrix

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
)

// nodeSilent stops the heartbeat of the node of a ready new pod, and starts it again later.
func nodeSilent(c *cell, m moment) end {
	silent, before := c.nodeOfAReadyPod("app:2"), c.seen.ids("app:2")
	wake := c.silence(silent)
	if m.sick {
		c.seen.cure(none)
		c.quietly()
		c.unrouted(m)
	} else {
		c.approve("app:2", m.step)
		c.quietly()
	}
	if r := c.rollout(c.get(api.RolloutResource(), "app")); int(r.Status.CurrentStepIndex) != m.step || r.Status.Sluice.State == string(rollout.StateFinalising) {
		c.Errorf("the release left step %d with pods on a node that is silent: %s at step %d", m.step, r.Status.Sluice.State, r.Status.CurrentStepIndex)
	}
	c.unserved(silent)
	c.kept("app:2", before)
	wake()
	c.finish("app:2", 1)
	return healthy("app:2")
}

func nodes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
}

func endpointSlices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
}

func (c *cell) nodeOfAReadyPod(image string) string {
	c.Helper()
	for _, p := range c.seen.podsOf(image) {
		if condition(p, "Ready") == "True" {
			return nodeOf(p)
		}
	}
	c.Fatalf("no pod of %s is ready", image)
	return ""
}

func nodeOf(pod *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return name
}

// condition returns the status of a condition of a pod or a node.
func condition(u *unstructured.Unstructured, of string) string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok && m["type"] == of {
			status, _ := m["status"].(string)
			return status
		}
	}
	return ""
}

// silence stops the heartbeat of a node. The kwok instance that plays its kubelet leaves the node alone as long as
// another holder has its lease. The node controller would wait minutes before it sets Unknown and marks the pods
// unready, so the test writes both and leaves the rest to that controller. The function wake returns when the kubelet
// sends the heartbeat again and has updated its pods.
func (c *cell) silence(node string) (wake func()) {
	c.Helper()
	c.touch(nodes(), node) // the next heartbeat is due a minute after the node has changed, regardless of the holder of its lease
	keeper := c.holdLease(node, "nobody")
	unknown := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`)
	c.object(nodes(), node, "to be unreachable", func(u *unstructured.Unstructured) bool {
		if condition(u, "Ready") == "True" { // a heartbeat may have been on its way
			c.patchStatus(nodes(), node, unknown)
		}
		return condition(u, "Ready") == "Unknown" && unreachable(u)
	})
	c.unready(node)
	return func() {
		c.Helper()
		c.holdLease(node, keeper)
		c.heartbeat(node)
		for _, p := range c.podsOn(node) {
			c.label(p.GetName(), "null")
		}
	}
}

// holdLease sets the holder of a node's lease for longer than a test lasts, and returns the previous holder.
func (c *cell) holdLease(node, holder string) (before string) {
	c.Helper()
	leases := c.kube().CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(c.Context(), node, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d,"renewTime":%q}}`,
		holder, int(time.Hour.Seconds()), time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := leases.Patch(c.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// unreachable reports whether the node controller has noticed: no pod shall come to the node. It evicts the pods of one
// node after the other, and of no node when too many are silent.
func unreachable(node *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	for _, item := range taints {
		if t, ok := item.(map[string]any); ok && t["key"] == corev1.TaintNodeUnreachable && t["effect"] == string(corev1.TaintEffectNoSchedule) {
			return true
		}
	}
	return false
}

// unready marks the pods of a node as not ready, and waits until their workloads have seen it.
func (c *cell) unready(node string) {
	c.Helper()
	ready := map[string]int64{}
	for _, image := range []string{"app:1", "app:2"} {
		owner := "app"
		if c.col.beside && image == "app:2" {
			owner = "app-canary"
		}
		ready[owner] += c.readyElsewhere(image, node)
	}
	for _, p := range c.podsOn(node) {
		c.label(p.GetName(), `"true"`)
		c.patchStatus(pods(), p.GetName(), []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`))
	}
	for owner, n := range ready {
		c.object(c.col.resource, owner, fmt.Sprintf("%d pods ready", n), func(u *unstructured.Unstructured) bool { return u != nil && c.col.ready(u) == n })
	}
}

// label sets the label that keeps a pod unready, or removes it with "null". Without it, kwok would make the pod ready
// again until it knows that it has lost the lease of the node. The witness removes the annotation of the same name, and
// leaves the label alone.
func (c *cell) label(pod, never string) {
	c.Helper()
	if err := c.patch(pods(), pod, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, controlplane.NeverReady, never)); err != nil {
		c.Fatal(err)
	}
}

// readyElsewhere returns the number of pods of a version that are ready on other nodes.
func (c *cell) readyElsewhere(image, node string) (n int64) {
	for _, p := range c.seen.podsOf(image) {
		if nodeOf(p) != node && condition(p, "Ready") == "True" {
			n++
		}
	}
	return n
}

// unserved waits until no Service has a ready endpoint on a node.
func (c *cell) unserved(node string) {
	c.Helper()
	slices, err := c.client(endpointSlices()).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, s := range slices.Items {
		c.object(endpointSlices(), s.GetName(), "no ready endpoint on "+node, func(u *unstructured.Unstructured) bool { return u == nil || !serves(u, node) })
	}
}

func serves(slice *unstructured.Unstructured, node string) bool {
	list, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
	for _, item := range list {
		endpoint, _ := item.(map[string]any)
		if ready, _, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); ready && endpoint["nodeName"] == node {
			return true
		}
	}
	return false
}

// heartbeat waits until a node is ready. Its kubelet handles a changed node, but may not know yet that it holds the
// lease.
func (c *cell) heartbeat(node string) {
	c.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for condition(c.get(nodes(), node), "Ready") != "True" {
		c.touch(nodes(), node)
		select {
		case <-tick.C:
		case <-c.bound.Done():
			c.Fatalf("the node does not come back:\n%s", c.shown(nodes(), node))
		}
	}
}

// podsOn returns all pods of a node, including pods that are being deleted.
func (c *cell) podsOn(node string) []unstructured.Unstructured {
	c.Helper()
	list, err := c.client(pods()).List(c.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		c.Fatal(err)
	}
	return list.Items
}

// touch changes a meaningless annotation of an object.
func (c *cell) touch(kind schema.GroupVersionResource, name string) {
	c.Helper()
	if err := c.patch(kind, name, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))); err != nil {
		c.Fatal(err)
	}
}

// patchStatus changes conditions, which are merged by type.
func (c *cell) patchStatus(kind schema.GroupVersionResource, name string, patch []byte) {
	c.Helper()
	_, err := c.client(kind).Patch(c.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		c.Fatal(err)
	}
}
