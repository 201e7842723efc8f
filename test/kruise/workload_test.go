package kruise_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/controlplane"
)

const (
	look     = 10 * time.Millisecond
	patience = 3 * time.Minute
)

var (
	cloneSets            = schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "clonesets"}
	advancedStatefulSets = schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "statefulsets"}
	advancedDaemonSets   = schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "daemonsets"}
	statefulSets         = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	daemonSets           = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
)

// workload is one object and its pods, in its own namespace.
type workload struct {
	resource  schema.GroupVersionResource
	namespace string
	dynamic   dynamic.ResourceInterface
	typed     kubernetes.Interface
}

const name = "shop"

// aWorkload creates an object of image shop:1. Its spec has the given fields in addition to selector and template. It
// returns when the given number of pods are ready.
func aWorkload(t *testing.T, plane *controlplane.Cluster, resource schema.GroupVersionResource, pods int, fields string) *workload {
	t.Helper()
	client := must(kubernetes.NewForConfig(plane.Config))(t)
	space := must(client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kruise-"}}, metav1.CreateOptions{}))(t)
	w := &workload{
		resource: resource, namespace: space.Name, typed: client,
		dynamic: must(dynamic.NewForConfig(plane.Config))(t).Resource(resource).Namespace(space.Name),
	}
	must(w.dynamic.Create(t.Context(), manifest(t, resource, fields), metav1.CreateOptions{}))(t)
	want := map[string]int{}
	if pods > 0 {
		want["shop:1"] = pods
	}
	w.until(t, func(ctx context.Context) (string, error) {
		got, observed, err := w.state(ctx)
		if err != nil || !observed || got.All != int64(pods) {
			return "the object is not observed", err
		}
		return cmp.Diff(want, got.Pods), nil
	})
	return w
}

func manifest(t *testing.T, resource schema.GroupVersionResource, fields string) *unstructured.Unstructured {
	t.Helper()
	kind := map[string]string{"clonesets": "CloneSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"}[resource.Resource]
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: "shop:1"}]}
  %s
`, resource.GroupVersion(), kind, strings.ReplaceAll(strings.TrimSpace(fields), "\n", "\n  "))
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// must returns the value, or ends the test.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// patch sends a merge patch in YAML.
func (w *workload) patch(t *testing.T, text string) {
	t.Helper()
	data := must(yaml.YAMLToJSON([]byte(text)))(t)
	must(w.dynamic.Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}))(t)
}

// lose deletes one pod of the image. It returns when the pod is gone and another one replaces it. With forGood it does
// not wait for another.
func (w *workload) lose(t *testing.T, image string, forGood bool) {
	t.Helper()
	pods := must(w.pods(t.Context()))(t)
	for _, pod := range pods {
		if pod.Spec.Containers[0].Image != image || pod.DeletionTimestamp != nil {
			continue
		}
		if err := w.typed.CoreV1().Pods(w.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.until(t, func(ctx context.Context) (string, error) {
			now, err := w.pods(ctx)
			for _, other := range now {
				if other.UID == pod.UID {
					return "the pod is still there", err
				}
			}
			if len(now) < len(pods) && !forGood {
				return "nothing stands in its place", err
			}
			return "", err
		})
		return
	}
	t.Fatalf("no pod of %s is there to lose", image)
}

func (w *workload) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := w.typed.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// awaits returns when the pods and the status are as wanted, and the status is about the current spec.
func (w *workload) awaits(t *testing.T, want state) {
	t.Helper()
	w.until(t, func(ctx context.Context) (string, error) {
		got, observed, err := w.state(ctx)
		if err != nil || !observed {
			return "the spec is not observed", err
		}
		return cmp.Diff(want, got), nil
	})
}

// until polls until missing returns "".
func (w *workload) until(t *testing.T, missing func(context.Context) (string, error)) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), look, patience, true, func(ctx context.Context) (bool, error) {
		missing, err := missing(ctx)
		if err != nil {
			return false, err
		}
		last = missing
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, last)
	}
}
