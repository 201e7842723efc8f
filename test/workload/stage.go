// Package workload plays releases of kinds other than Deployment: StatefulSets, DaemonSets and OpenKruise's kinds. Each
// kind has its own controller on a real control plane. Its one invariant is that no pod runs a new version before a
// user has approved it.
//
// The code outside of its tests is the stage: the parts that a world needs for these kinds.
package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/kruise"
	"sluice.dev/sluice/test/world"
)

// Nodes is the number of nodes of a stage on which DaemonSets may run. Pods come to a node only by the label of
// [Spread].
const Nodes = 8

// Prepare serves OpenKruise's kinds in a world and creates the nodes. The caller calls stop before the world ends.
func Prepare(ctx context.Context, w *world.World) (stop func() error, err error) {
	if err := nodes(ctx, w); err != nil {
		return nil, err
	}
	return Serve(ctx, w)
}

// Serve serves OpenKruise's definitions in a world and runs its controllers. The caller calls stop before the world ends.
func Serve(ctx context.Context, w *world.World) (stop func() error, err error) {
	crds, err := kruise.CRDs()
	if err != nil {
		return nil, err
	}
	if _, err := w.Kubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
		return nil, fmt.Errorf("install the definitions of OpenKruise: %w", err)
	}
	if _, err := w.Kubectl(ctx, "wait", "--for=condition=Established", "-f", crds); err != nil {
		return nil, fmt.Errorf("wait until the definitions of OpenKruise are served: %w", err)
	}
	controllers, err := kruise.Start(ctx, w.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return controllers.Stop, nil
}

func nodes(ctx context.Context, w *world.World) error {
	client, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		return err
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("500"),
	}
	for n := range Nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(n), Labels: map[string]string{corev1.LabelHostname: nodeName(n)}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make a node: %w", err)
		}
	}
	return nil
}

func nodeName(n int) string { return fmt.Sprintf("daemon-%d", n) }

// Spread lets pods that select the nodes of a label run on n nodes, which scales a DaemonSet.
func Spread(ctx context.Context, w *world.World, label string, n int) error {
	client, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		return err
	}
	for i := range Nodes {
		value := "null"
		if i < n {
			value = `"true"`
		}
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, label, value)
		if _, err := client.CoreV1().Nodes().Patch(ctx, nodeName(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("label a node: %w", err)
		}
	}
	return nil
}

// OnceKnown makes a write that may be made twice. It repeats the write while the API server does not know the kind well
// enough for a policy that changes it. It also does so while the busy API server gives no answer. The API server looks
// for new kinds every five seconds.
func OnceKnown(ctx context.Context, write func(context.Context) error) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := write(ctx)
		if apierrors.IsServiceUnavailable(err) || controlplane.Unanswered(err) {
			return false, nil
		}
		return true, err
	})
}
