package kruise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state is the visible state of a workload and its pods. Images stand for revisions.
type state struct {
	// Pods counts the pods that are not being deleted, by image. Unready pods count under the image with a "?".
	Pods map[string]int
	// All, Updated, Ready and Available are the counts of the status; Ready and Available are of updated pods.
	All, Updated, Ready, Available int64
	// Current and Update are the images of the revisions in the status.
	Current, Update string
}

// fields has the fields of each kind with the values of state. An empty field means that the kind has no such value.
var fields = map[string]struct{ all, updated, ready, available, current, update string }{
	"clonesets.apps.kruise.io":    {"replicas", "updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas", "currentRevision", "updateRevision"},
	"statefulsets.apps.kruise.io": {"replicas", "updatedReplicas", "updatedReadyReplicas", "updatedAvailableReplicas", "currentRevision", "updateRevision"},
	"daemonsets.apps.kruise.io":   {"desiredNumberScheduled", "updatedNumberScheduled", "", "", "", "daemonSetHash"},
	"statefulsets.apps":           {"replicas", "updatedReplicas", "", "", "currentRevision", "updateRevision"},
	"daemonsets.apps":             {"desiredNumberScheduled", "updatedNumberScheduled", "", "", "", ""},
}

// state reads the workload, and reports whether its status is about its current spec.
func (w *workload) state(ctx context.Context) (state, bool, error) {
	object, err := w.dynamic.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return state{}, false, fmt.Errorf("get the workload: %w", err)
	}
	images, err := w.images(ctx)
	if err != nil {
		return state{}, false, err
	}
	pods, err := w.pods(ctx)
	if err != nil {
		return state{}, false, err
	}
	at := fields[w.resource.GroupResource().String()]
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(object.Object, "status", field)
		return n
	}
	image := func(field string) string {
		revision, _, _ := unstructured.NestedString(object.Object, "status", field)
		return images[strings.TrimPrefix(revision, name+"-")]
	}
	s := state{
		Pods: byImage(pods), All: number(at.all), Updated: number(at.updated), Ready: number(at.ready), Available: number(at.available),
		Current: image(at.current), Update: image(at.update),
	}
	return s, number("observedGeneration") == object.GetGeneration(), nil
}

// images returns the images of the revisions, by the hash at the end of a revision's name.
func (w *workload) images(ctx context.Context) (map[string]string, error) {
	list, err := w.typed.AppsV1().ControllerRevisions(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	found := map[string]string{}
	for _, revision := range list.Items {
		var data appsv1.Deployment // up to the template, it has the same form
		if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
			return nil, fmt.Errorf("read the revision %s: %w", revision.Name, err)
		}
		found[strings.TrimPrefix(revision.Name, name+"-")] = data.Spec.Template.Spec.Containers[0].Image
	}
	return found, nil
}

func byImage(pods []corev1.Pod) map[string]int {
	found := map[string]int{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		image := pod.Spec.Containers[0].Image
		if !ready(pod) {
			image += "?"
		}
		found[image]++
	}
	return found
}

func ready(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
