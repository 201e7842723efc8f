package kube

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

const aStatefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: shop, uid: w, resourceVersion: "5", generation: 1}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: Exists}]}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:2"}]}}
status: {observedGeneration: 1, conditions: [{type: any, status: "True"}]}`

func objectOf(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// ownedByWeb returns the metadata of an object that the StatefulSet controls.
func ownedByWeb(name, hash string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{"controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{UID: "w", Controller: &yes}},
	}
}

// web returns the StatefulSet with a pod of each of its versions.
func web(t *testing.T) *workloadObject {
	t.Helper()
	w := &workloadObject{Object: workload.Object{Live: objectOf(t, aStatefulSet)}}
	for hash, image := range map[string]string{"web-1": "web:1", "web-2": "web:2"} {
		w.Revisions = append(w.Revisions, &appsv1.ControllerRevision{ObjectMeta: ownedByWeb(hash, hash), Data: runtime.RawExtension{
			Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"` + image + `"}]}}}}`),
		}})
	}
	w.Pods = []*corev1.Pod{{ObjectMeta: ownedByWeb("web-0", "web-1")}, {ObjectMeta: ownedByWeb("web-1", "web-2")}}
	return w
}

// A version that returns while another version is being released may find pods with the id of its own earlier release.
func TestPodsOfAVersionThatReturnsAreLabelledAsItsOwn(t *testing.T) {
	t.Parallel()
	w := web(t)
	s := &Snapshot{object: w, spec: rollout.Spec{Steps: make([]rollout.Step, 2)}, rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &api.SluiceStatus{
		Epoch: 2, State: string(rollout.StatePaused), CanaryRevision: "another",
	}}}}
	if got := s.observeWorkload(); got.Batches.Unlabelled != 1 {
		t.Errorf("%d pods have no id, want 1", got.Batches.Unlabelled)
	}
	w.Pods[1].Labels[api.LabelRolloutID], w.Pods[1].Labels[api.LabelRolloutBatchID] = s.observeWorkload().Revision, "2"
	if got := s.observeWorkload(); got.Batches.Unlabelled != 0 {
		t.Errorf("%d pods are to be labelled with the id that they bear", got.Batches.Unlabelled)
	}
}

func TestEndpointsOfAnotherKindAreThoseOfItsNewPods(t *testing.T) {
	t.Parallel()
	w := web(t)
	s := &Snapshot{object: w}
	var endpoints []*discoveryv1.EndpointSlice
	for _, pod := range []string{"web-0", "web-1", "web-2"} {
		endpoints = append(endpoints, &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Name: pod, UID: types.UID(pod)}},
		}})
	}
	if got := s.readyEndpoints(endpoints); got != 1 {
		t.Errorf("%d endpoints are ready, want 1", got)
	}
	endpoints[1].Endpoints[0].TargetRef.UID = "before"
	if got := s.readyEndpoints(endpoints); got != 0 {
		t.Errorf("with an earlier pod of that name %d endpoints are ready", got)
	}
}

func TestByWhichLabelServicesTellRevisionsApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ apiVersion, kind, want string }{
		{"apps/v1", "Deployment", "pod-template-hash"},
		{"apps/v1", "StatefulSet", "controller-revision-hash"},
		{"apps/v1", "DaemonSet", "controller-revision-hash"},
		{"apps.kruise.io/v1alpha1", "CloneSet", "pod-template-hash"},
	} {
		s := &Snapshot{spec: rollout.Spec{Workload: rollout.Ref{APIVersion: c.apiVersion, Kind: c.kind, Name: "web"}}}
		if diff := cmp.Diff(c.want, s.revisionLabel()); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.kind, c.apiVersion, diff)
		}
	}
}

func TestARestedWorkloadIsRememberedAsLongAsItIsTheSame(t *testing.T) {
	t.Parallel()
	var all idleCache
	was := &metav1.ObjectMeta{UID: "w", ResourceVersion: "5"}
	all.putWorkload(was, "web", rollout.Workload{DesiredReplicas: 2})
	for sentence, c := range map[string]struct {
		object metav1.ObjectMeta
		by     string
		known  bool
	}{
		"as it was":                  {metav1.ObjectMeta{UID: "w", ResourceVersion: "5"}, "web", true},
		"since written":              {metav1.ObjectMeta{UID: "w", ResourceVersion: "6"}, "web", false},
		"made anew":                  {metav1.ObjectMeta{UID: "v", ResourceVersion: "5"}, "web", false},
		"looked at by another's eye": {metav1.ObjectMeta{UID: "w", ResourceVersion: "5"}, "shop", false},
	} {
		if got := all.getWorkload(&c.object, c.by); (got != nil) != c.known || got != nil && got.DesiredReplicas != 2 {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
	for n := range maxIdleWorkloads {
		all.putWorkload(&metav1.ObjectMeta{UID: types.UID(strconv.Itoa(n))}, "web", rollout.Workload{})
	}
	if len(all.at) > maxIdleWorkloads || all.getWorkload(was, "web") != nil {
		t.Errorf("%d are remembered, for ever", len(all.at))
	}
}

func TestWhatIsKeptOfPods(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: ownedByWeb("web-0", "web-1"), Spec: corev1.PodSpec{Hostname: "web-0"}}
	pod.Annotations = map[string]string{corev1.PodDeletionCost: "7", "note": "long"}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	updating := corev1.PodCondition{Type: workload.ConditionUpdatedInPlace, Status: corev1.ConditionFalse}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, ready, updating}}
	kept := &corev1.Pod{ObjectMeta: ownedByWeb("web-0", "web-1"), Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{ready, updating}}}
	kept.Annotations = map[string]string{corev1.PodDeletionCost: "7"}
	trimPod(pod)
	if diff := cmp.Diff(kept, pod); diff != "" {
		t.Errorf("a pod (-want +got):\n%s", diff)
	}
}

func TestTheSelectorOfWhatHangsOnAWorkload(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		selector any
		want     string
	}{
		"labels and expressions":         {map[string]any{"matchLabels": map[string]any{"app": "web"}, "matchExpressions": []any{map[string]any{"key": "tier", "operator": "Exists"}}}, "app=web,tier"},
		"none: everything is looked at":  {nil, ""},
		"one that cannot be read, alike": {"app=web", ""},
	} {
		w := &workloadObject{Object: workload.Object{Live: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": c.selector}}}}}
		if diff := cmp.Diff(c.want, w.labelSelector()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}
