package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// ownDefinition is a user's own kind, with the rights that an installation grants for it.
const ownDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gamesets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gamesets, singular: gameset, kind: GameSet}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: example-gamesets
  labels: {sluice.dev/aggregate-to-watcher: "true", sluice.dev/aggregate-to-executor: "true"}
rules:
- {apiGroups: [example.com], resources: [gamesets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: example-gamesets-patch
  labels: {sluice.dev/aggregate-to-executor: "true"}
rules:
- {apiGroups: [example.com], resources: [gamesets], verbs: [patch]}
`

var gameSets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gamesets"}

// A kind that only its owner knows has the label of a kind that works like a StatefulSet. It is released step by step,
// and rolled back.
func TestAKindOfOnesOwn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	shared.Apply(t, "default", ownDefinition)
	shared.Do(t, "wait", "--for=condition=Established", "crd/gamesets.example.com")
	runOwn(t)
	kind := Kinds()[0]
	kind.Resource = gameSets
	s := aShop(t, kind, hasty, func(all objects) {
		set(all["workload"], "example.com/v1", "apiVersion")
		set(all["workload"], "GameSet", "kind")
		set(all["workload"], "statefulset", "metadata", "labels", api.LabelWorkloadType)
		set(all["Rollout"], "example.com/v1", "spec", "workloadRef", "apiVersion")
		set(all["Rollout"], "GameSet", "spec", "workloadRef", "kind")
	})
	s.release(2)
	s.finish(1, 2, 1)
	s.runs(map[string]int{image(2): replicas})
	s.release(3)
	s.at(2, 3, 1, 2)
	s.change(2, "null")
	s.await(healthyAfter(2))
	s.runs(map[string]int{image(2): replicas})
}

// own is the controller of that kind. It handles partitions, ordinals and revisions like the StatefulSet controller.
type own struct {
	ctx     context.Context
	client  kubernetes.Interface
	objects dynamic.NamespaceableResourceInterface
}

// ownPods is the label of its pods.
const ownPods = "example.com/own"

// runOwn runs the controller until the test has ended. It reconciles all objects after each change.
func runOwn(t *testing.T) {
	t.Helper()
	client, err := kubernetes.NewForConfig(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &own{ctx, client, objects.Resource(gameSets)}
	theirs, err := controlplane.Watch(ctx, c.objects, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := controlplane.Watch(ctx, client.CoreV1().Pods(""), metav1.ListOptions{LabelSelector: ownPods})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			var open bool
			select {
			case _, open = <-theirs.ResultChan():
			case _, open = <-pods.ResultChan():
			}
			if !open {
				if ctx.Err() == nil {
					t.Error("a watch of the controller ended")
				}
				return
			}
			list, err := c.objects.List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, u := range list.Items {
				if err := c.look(&u); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
					t.Errorf("control %s: %v", u.GetNamespace(), err)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// look reconciles an object by one action. It creates missing pods, or deletes the highest pod of a wrong revision once
// all are ready. Then it writes the status.
func (c *own) look(u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	template, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
	update, err := c.revision(u, template)
	if err != nil {
		return err
	}
	current, _, _ := unstructured.NestedString(u.Object, "status", "currentRevision")
	if current == "" {
		current = update
	}
	list, err := c.client.CoreV1().Pods(u.GetNamespace()).List(c.ctx, metav1.ListOptions{LabelSelector: ownPods})
	if err != nil {
		return err
	}
	pods := map[string]*corev1.Pod{}
	status := map[string]any{"observedGeneration": u.GetGeneration(), "replicas": int64(len(list.Items)), "currentRevision": current, "updateRevision": update}
	ready, updated := int64(0), int64(0)
	for _, pod := range list.Items {
		pods[pod.Name] = &pod
		if isReady(&pod) {
			ready++
		}
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == update {
			updated++
		}
	}
	want := number(u, "spec", "replicas")
	partition := number(u, "spec", "updateStrategy", "rollingUpdate", "partition")
	if updated == want && ready == want && int64(len(pods)) == want {
		status["currentRevision"] = update
	}
	maps.Copy(status, map[string]any{"readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": updated, "currentReplicas": int64(len(pods)) - updated})
	if err := c.move(u, pods, want, func(n int64) string {
		if n >= partition {
			return update
		}
		return current
	}, ready == want); err != nil {
		return err
	}
	if before, _, _ := unstructured.NestedMap(u.Object, "status"); fmt.Sprint(before) == fmt.Sprint(status) {
		return nil
	}
	u.Object["status"] = status
	_, err = c.objects.Namespace(u.GetNamespace()).UpdateStatus(c.ctx, u, metav1.UpdateOptions{})
	return err
}

// move creates or deletes pods. revision returns the revision of an ordinal.
func (c *own) move(u *unstructured.Unstructured, pods map[string]*corev1.Pod, want int64, revision func(int64) string, ready bool) error {
	client := c.client.CoreV1().Pods(u.GetNamespace())
	for n := range want {
		if pods[fmt.Sprint(u.GetName(), "-", n)] != nil {
			continue
		}
		pod, err := c.pod(u, n, revision(n))
		if err != nil {
			return err
		}
		if _, err := client.Create(c.ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if !ready || int64(len(pods)) != want {
		return nil
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(pods))) {
		pod := pods[n]
		var ordinal int64
		if _, err := fmt.Sscan(strings.TrimPrefix(n, u.GetName()+"-"), &ordinal); err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revision(ordinal) {
			err := client.Delete(c.ctx, n, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
	}
	return nil
}

// revision creates the ControllerRevision of a template, and returns its name.
func (c *own) revision(u *unstructured.Unstructured, template map[string]any) (string, error) {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		return "", err
	}
	sum := fnv.New32a()
	_, _ = sum.Write(data)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%x", u.GetName(), sum.Sum32()), Labels: map[string]string{"app": name}, OwnerReferences: ofOwn(u)},
		Data:       runtime.RawExtension{Raw: data}, Revision: u.GetGeneration(),
	}
	_, err = c.client.AppsV1().ControllerRevisions(u.GetNamespace()).Create(c.ctx, r, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return r.Name, err
}

// pod returns the pod of an ordinal, with the template of a revision.
func (c *own) pod(u *unstructured.Unstructured, ordinal int64, revision string) (*corev1.Pod, error) {
	r, err := c.client.AppsV1().ControllerRevisions(u.GetNamespace()).Get(c.ctx, revision, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var data struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{ObjectMeta: data.Spec.Template.ObjectMeta, Spec: data.Spec.Template.Spec}
	pod.Name, pod.OwnerReferences = fmt.Sprint(u.GetName(), "-", ordinal), ofOwn(u)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Labels[ownPods] = revision, "true"
	return pod, nil
}

func ofOwn(u *unstructured.Unstructured) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(u, u.GroupVersionKind())}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
