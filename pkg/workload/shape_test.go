package workload_test

import (
	"encoding/json"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/workload"
)

// shape is a kind of workload in a test.
type shape struct{ apiVersion, kind, workloadType string }

var (
	statefulSet         = shape{"apps/v1", "StatefulSet", "statefulset"}
	advancedStatefulSet = shape{"apps.kruise.io/v1beta1", "StatefulSet", "statefulset"}
	cloneSet            = shape{"apps.kruise.io/v1alpha1", "CloneSet", "cloneset"}
	daemonSet           = shape{"apps/v1", "DaemonSet", "daemonset"}
	advancedDaemonSet   = shape{"apps.kruise.io/v1alpha1", "DaemonSet", "daemonset"}
	likeAStatefulSet    = shape{"example.com/v1", "Ring", "statefulset"}
)

func shapes() map[string]shape {
	return map[string]shape{
		"StatefulSet": statefulSet, "Advanced StatefulSet": advancedStatefulSet, "CloneSet": cloneSet, "DaemonSet": daemonSet,
		"Advanced DaemonSet": advancedDaemonSet, "what is like a StatefulSet": likeAStatefulSet,
	}
}

type change = func(*unstructured.Unstructured)

// of is a workload of ten pods of the image web:1, changed.
func (s shape) of(changes ...change) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.apiVersion, "kind": s.kind,
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7", "generation": int64(3)},
		"spec":     map[string]any{"replicas": int64(10), "template": templateAs("web:1")},
	}}
	if s.workloadType == "daemonset" {
		unstructured.RemoveNestedField(u.Object, "spec", "replicas")
		set("10", "status", "desiredNumberScheduled")(u)
	}
	if s == likeAStatefulSet {
		label("rollouts.kruise.io/workload-type", "statefulset")(u)
	}
	for _, change := range changes {
		change(u)
	}
	return u
}

func (s shape) object(changes ...change) workload.Object {
	return workload.Object{Live: s.of(changes...)}
}

func templateAs(image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": image, "resources": map[string]any{}}}},
	}
}

// set gives a field what a line of YAML says.
func set(text string, path ...string) change {
	body, err := yaml.YAMLToJSON([]byte(`{"it": ` + text + `}`))
	if err != nil {
		panic(err)
	}
	var holder unstructured.Unstructured
	if err := holder.UnmarshalJSON([]byte(`{"kind": "Any", ` + string(body[1:]))); err != nil {
		panic(err)
	}
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, holder.DeepCopy().Object["it"], path...); err != nil {
			panic(err)
		}
	}
}

func strategy(text string) change { return set(text, "spec", "updateStrategy") }

func image(name string) change {
	return func(u *unstructured.Unstructured) {
		u.Object["spec"].(map[string]any)["template"] = templateAs(name)
	}
}

func label(key, value string) change {
	return func(u *unstructured.Unstructured) {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		u.SetLabels(labels)
	}
}

func note(key, value string) change {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		u.SetAnnotations(annotations)
	}
}

// original is the recorded value of a field.
func original(field, text string) change { return note("sluice.dev/original."+field, text) }

// owned are the marks of a workload that the Rollout web has adopted.
func (s shape) owned(u *unstructured.Unstructured) {
	label("rollouts.kruise.io/workload-type", s.workloadType)(u)
	note("sluice.dev/rollout", "web")(u)
}

var underWay = note("rollouts.kruise.io/in-progressing", `{"rolloutName":"web"}`)

// merged is the workload with a patch applied, as the API server does that.
func merged(t interface{ Fatal(...any) }, u *unstructured.Unstructured, p workload.Patch) *unstructured.Unstructured {
	change, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	body, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if body, err = jsonpatch.MergePatch(body, change); err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	if len(out.GetAnnotations()) == 0 {
		out.SetAnnotations(nil)
	}
	if len(out.GetLabels()) == 0 {
		out.SetLabels(nil)
	}
	return out
}

// revisionOf is a ControllerRevision of the workload u1, encoded as controllers do.
func revisionOf(name string, number int64, image string) *appsv1.ControllerRevision {
	yes := true
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "u1", Controller: &yes}}},
		Revision:   number,
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},` +
			`"spec":{"containers":[{"name":"web","image":"` + image + `","resources":{}}]},"ours":{"level":12345678901234567890}}}}`)},
	}
}

// podOf is a ready pod of the workload u1.
func podOf(name, hash string, changes ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"controller-revision-hash": hash, "pod-template-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{UID: "u1", Controller: &yes}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[1].Status = corev1.ConditionFalse }

func pending(pod *corev1.Pod) {
	unready(pod)
	pod.Status.Phase = corev1.PodPending
}

func going(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

func foreign(pod *corev1.Pod) { pod.OwnerReferences[0].UID = types.UID("another") }

func orphan(pod *corev1.Pod) { pod.OwnerReferences = nil }

func cost(text string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": text}
	}
}

func born(second int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(time.Unix(second, 0)) }
}

func released(pod *corev1.Pod) { pod.Labels["rollouts.kruise.io/rollout-id"] = "v2" }

func names(pods []*corev1.Pod) []string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return list
}
