package matrix

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// onNodesOfItsOwn creates nodes that run only this cell's pods, and the application on them.
func onNodesOfItsOwn(c *cell) {
	client := c.kube()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("50"),
	}
	for _, name := range c.nodes() {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"event": c.ns, corev1.LabelHostname: name}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "event", Value: c.ns, Effect: corev1.TaintEffectNoSchedule}}},
			Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
		}
		if _, err := client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
		c.Cleanup(func() {
			if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(c.Context()), name, metav1.DeleteOptions{}); err != nil {
				c.Error(err)
			}
		})
	}
	c.create(services(), serviceManifest)
	c.createRoute()
	manifest := strings.Replace(c.col.workloadManifest(c.replicas), "    spec: {",
		"    spec: {nodeSelector: {event: "+c.ns+"}, tolerations: [{key: event, value: "+c.ns+", effect: NoSchedule}], ", 1)
	c.create(c.col.resource, manifest)
	c.seen.await(c, "its pods, once the nodes are ready", func(pods map[string][]string) bool { return len(pods["app:1"]) == c.replicas })
	c.settled("app:1")
	c.note()
	c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
	c.adopts()
}

// nodes returns the names of the cell's nodes: two, or one for each daemon.
func (c *cell) nodes() (names []string) {
	n := 2
	if c.col.daemon {
		n = c.replicas
	}
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%c", c.ns, 'a'+i))
	}
	return names
}

// loseNode takes a node out of service with its pods, and waits until the controller has replaced them on the other
// node.
func (c *cell) loseNode() {
	c.Helper()
	client := c.kube()
	lost := c.nodes()[0]
	list, err := client.CoreV1().Pods(c.ns).List(c.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + lost})
	if err != nil {
		c.Fatal(err)
	}
	gone := map[string]bool{}
	for _, p := range list.Items {
		gone[string(p.UID)] = true
	}
	before := map[string]int{"app:1": len(c.seen.running("app:1")), "app:2": len(c.seen.running("app:2"))}
	taints := `{"spec":{"taints":[{"key":"event","value":"` + c.ns + `","effect":"NoSchedule"},{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`
	if _, err := client.CoreV1().Nodes().Patch(c.Context(), lost, types.MergePatchType, []byte(taints), metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	c.replaced(before, gone)
}
