package kube

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// workloadObject is a workload that is not a Deployment. The client watches its kind. It does not watch the revisions
// and pods, and lists them on demand.
type workloadObject struct {
	workload.Object // Live is nil if the workload does not exist
	kind            workload.Kind
	resource        schema.GroupVersionResource
	// idleState is the last observed state, if the workload has not changed since. Its revisions and pods are then not
	// read.
	idleState *rollout.Workload
}

// isPresent reports whether the workload exists and is not a Deployment.
func (w *workloadObject) isPresent() bool { return w != nil && w.Live != nil }

func (w *workloadObject) watchedKind() watchedKind {
	return watchedKind{GroupVersionResource: w.resource, isWorkload: true}
}

func (w *workloadObject) observedOrIdle(rolloutName string) rollout.Workload {
	if w.idleState != nil {
		return *w.idleState
	}
	return w.ObserveWorkload(rolloutName)
}

// revisionsFingerprint tells the states of the workload's revisions apart.
func (w *workloadObject) revisionsFingerprint(rolloutName string) string {
	if !w.isPresent() {
		return ""
	}
	return fmt.Sprint(w.observedOrIdle(rolloutName).Revisions)
}

func (w *workloadObject) isHeld() bool {
	_, held := w.Live.GetAnnotations()[api.AnnotationInProgressing]
	return held
}

// labelSelector matches the revisions and pods of the workload, and maybe others.
func (w *workloadObject) labelSelector() string {
	fields, found, _ := unstructured.NestedMap(w.Live.Object, "spec", "selector")
	selector := &metav1.LabelSelector{}
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, selector) != nil {
		return ""
	}
	return metav1.FormatLabelSelector(selector)
}

// revisionLabel returns the label that Services use to select one revision of the workload.
func (s *Snapshot) revisionLabel() string {
	if kind, ok := workload.KindOf(s.spec.Workload); ok {
		return kind.HashLabel
	}
	if s.object.isPresent() {
		return s.object.kind.HashLabel
	}
	return api.LabelPodTemplateHash
}

// workloadMeta returns the workload's metadata, nil if the workload does not exist.
func (s *Snapshot) workloadMeta() metav1.Object {
	switch {
	case s.deployment != nil:
		return s.deployment
	case s.object.isPresent():
		return s.object.Live
	}
	return nil
}

// readWorkloadObject reads a workload that is not a Deployment.
func (o *observation) readWorkloadObject(ctx context.Context) {
	s, ref := o.snapshot, o.snapshot.spec.Workload
	if s.object == nil {
		s.object = &workloadObject{}
	}
	o.reads.Go(func() error {
		of := apiclient.Kind{APIVersion: ref.APIVersion, Name: ref.Kind}
		found, err := o.resolveKind(ctx, of)
		switch {
		case apiclient.IsUnservedKind(err), err == nil && !found.Namespaced:
			o.markLive(partWorkload)()
			o.addProblem(workloadUnserved(ref))
			return nil
		case err != nil:
			return err
		}
		s.object.resource = found.GroupVersionResource
		on := o.accessTo("get", found.Group, found.Resource, ref.Name)
		on.Workload = true
		o.startRead(ctx, on, func(ctx context.Context) error {
			live, err := o.fetchWorkloadObject(ctx, s.object.resource, ref.Name)
			if api.Unserved(err) { // the CustomResourceDefinition was deleted in the meantime
				o.client.kinds.InvalidateKind(of)
				o.addProblem(workloadUnserved(ref))
				live, err = nil, nil
			}
			o.storeWorkloadObject(live)
			return err
		})
		return nil
	})
}

func (o *observation) fetchWorkloadObject(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return fetchObject(ctx, o, objectQuery[*unstructured.Unstructured]{
		overlay: o.client.informers.forWorkload(resource), name: o.keyOf(name), expected: true, confirmAbsence: true, isComplete: cache.MarkedWorkload, onAnswer: o.markLive(partWorkload),
		call: func(ctx context.Context) (*unstructured.Unstructured, error) {
			return o.client.objects.Resource(resource).Namespace(o.namespace).Get(ctx, name, metav1.GetOptions{})
		},
	})
}

// storeWorkloadObject takes in a workload, if its kind can be released.
func (o *observation) storeWorkloadObject(live *unstructured.Unstructured) {
	w, ref := o.snapshot.object, o.snapshot.spec.Workload
	w.Live = nil
	if live == nil {
		return
	}
	var known bool
	if w.kind, known = workload.KindOfObject(live); !known {
		unknown := workloadUnknown(ref, live, w.resource)
		unknown.Unknown = o.snapshot.releaseState().Releasing() // its kind was known before, and the workload is held
		o.addProblem(unknown)
		return
	}
	w.Live = live
}

// needsDependents reports whether the executor must read the revisions and pods of the workload. Without a release
// under way they change only with the workload: its controller writes the status when a pod comes, goes or becomes
// ready.
func (o *observation) needsDependents() bool {
	s, w := o.snapshot, o.snapshot.object
	w.idleState = nil
	if o.source == fromServer || s.releaseState().Releasing() || w.isHeld() {
		return true
	}
	w.idleState = o.client.idleWorkloads.getWorkload(w.Live, s.rollout.Name)
	return w.idleState == nil
}

// readObjectDependents reads the revisions and the pods of a workload that is not a Deployment.
func (o *observation) readObjectDependents(ctx context.Context) {
	w, c := o.snapshot.object, o.client
	if !o.needsDependents() {
		return
	}
	if o.source == fromMemory {
		o.reads.Go(func() error { return errNotCached })
		return
	}
	w.Revisions, w.Pods = nil, nil
	options := metav1.ListOptions{LabelSelector: w.labelSelector()}
	c.readCounts.live.Add(2)
	o.startRead(ctx, o.accessTo("list", appsv1.GroupName, revisions, ""), func(ctx context.Context) error {
		found, err := c.apps.ControllerRevisions(o.namespace).List(ctx, options)
		if err != nil {
			return err
		}
		w.Revisions = pointersTo(found.Items)
		o.dependentsRead.Add(1)
		return nil
	})
	o.startRead(ctx, o.accessTo("list", "", "pods", ""), func(ctx context.Context) error {
		found, err := c.core.Pods(o.namespace).List(ctx, options)
		if err != nil {
			return err
		}
		w.Pods = pointersTo(found.Items)
		for _, pod := range w.Pods {
			trimPod(pod)
		}
		o.dependentsRead.Add(1)
		return nil
	})
}

// trimPod keeps only the facts about a pod that a release needs: its owner, its phase, its readiness, its node and its
// deletion cost.
func trimPod(pod *corev1.Pod) {
	cost, priced := pod.Annotations[corev1.PodDeletionCost]
	pod.ManagedFields, pod.Annotations = nil, nil
	if priced {
		pod.Annotations = map[string]string{corev1.PodDeletionCost: cost}
	}
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: slices.Clip(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type != corev1.PodReady && c.Type != workload.ConditionUpdatedInPlace
	}))}
}

// storeDependents notes that the revisions and pods of a workload were read. It remembers the state of a workload
// without a release under way.
func (o *observation) storeDependents() {
	s, w := o.snapshot, o.snapshot.object
	if w.idleState != nil {
		return
	}
	s.liveParts[partReplicaSets] = true
	if o.dependentsRead.Load() == 2 && !s.releaseState().Releasing() && !w.isHeld() {
		o.client.idleWorkloads.putWorkload(w.Live, s.rollout.Name, w.observedOrIdle(s.rollout.Name))
	}
}

func workloadUnserved(ref rollout.Ref) rollout.Problem {
	install := "install what defines that kind (kubectl get crd shows those that are there)"
	if ref.Group() == rollout.GroupKruise {
		install = "install OpenKruise (https://openkruise.io/docs/installation)"
	}
	return rollout.Problem{Reason: rollout.ReasonWorkloadMissing, Message: fmt.Sprintf(
		"Workload Not Found; this cluster does not serve %s of %s: %s, or correct spec.workloadRef", ref.Kind, ref.APIVersion, install)}
}

func workloadUnknown(ref rollout.Ref, live *unstructured.Unstructured, resource schema.GroupVersionResource) rollout.Problem {
	next := "Name another workload in spec.workloadRef"
	if kinds.HasShape(live) {
		next = fmt.Sprintf("If it works as a StatefulSet does, say so by a label: kubectl label %s %s -n %s %s=%s",
			resource.GroupResource(), ref.Name, live.GetNamespace(), api.LabelWorkloadType, api.WorkloadTypeStatefulSet)
	}
	return rollout.Problem{Reason: rollout.ReasonUnsupported, Message: fmt.Sprintf("Sluice does not know how to release %s of %s. %s", ref, ref.APIVersion, next)}
}
