package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// pollInterval is the interval between checks of a condition; a start polls about five conditions.
const pollInterval = 25 * time.Millisecond

// created calls create until the API server answers. If an earlier attempt got no answer and the object exists now, that attempt created it.
func created(ctx context.Context, create func(context.Context) error) error {
	var failed error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		before := failed
		failed = create(ctx)
		switch {
		case failed == nil, before != nil && apierrors.IsAlreadyExists(failed):
			return true, nil
		case unanswered(failed):
			return false, nil
		}
		return false, failed
	})
	if err != nil && failed != nil {
		return failed
	}
	return err
}

// unanswered reports whether the API server may have carried out a request although the caller got err. Then the API server did not answer in time, or the
// connection broke.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

func until(ctx context.Context, what string, done func(context.Context) bool) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		return done(ctx), nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
	}
	return nil
}

func awaitAPIServer(ctx context.Context, client kubernetes.Interface) error {
	return until(ctx, "the API server is ready", func(ctx context.Context) bool {
		status := 0
		client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		return status == http.StatusOK
	})
}

// createNodes creates kwok-node-0 to kwok-node-(opts.nodes-1).
func createNodes(ctx context.Context, client kubernetes.Interface, opts options) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1k"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(opts.podsPerNode), resource.DecimalSI),
	}
	for i := range opts.nodes {
		name := fmt.Sprintf("kwok-node-%d", i)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name,
				Labels: map[string]string{
					corev1.LabelHostname:   name,
					corev1.LabelOSStable:   "linux",
					corev1.LabelArchStable: "amd64",
				},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Status: corev1.NodeStatus{
				Capacity:    room,
				Allocatable: room,
				NodeInfo: corev1.NodeSystemInfo{
					OperatingSystem: "linux", Architecture: "amd64",
					KubeletVersion: kubeVersion(), ContainerRuntimeVersion: "kwok", KernelVersion: "kwok", OSImage: "kwok",
				},
			},
		}
		err := created(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

func awaitNodes(ctx context.Context, client kubernetes.Interface, opts options) error {
	return until(ctx, "all nodes are ready", func(ctx context.Context) bool {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		usable := 0
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
					usable++
				}
			}
		}
		return usable == opts.nodes
	})
}

func awaitServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	return until(ctx, "the namespace default has its service account", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}
