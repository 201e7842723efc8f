package kube

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// groupKruise has the workloads of OpenKruise.
const groupKruise = "apps.kruise.io"

// workloadObject is a workload that is no Deployment. Its kind is watched; what hangs on it is not, and is listed when it is asked for.
type workloadObject struct {
	workload.Object // Live is nil when there is none
	kind            workload.Kind
	resource        schema.GroupVersionResource
	// rested is how it was last seen, where nothing has changed since; then what hangs on it has not been read.
	rested *rollout.Workload
}

// there reports whether the workload is one that is no Deployment, and exists.
func (w *workloadObject) there() bool { return w != nil && w.Live != nil }

func (w *workloadObject) watched() watchedKind {
	return watchedKind{GroupVersionResource: w.resource, workload: true}
}

func (w *workloadObject) see(rolloutName string) rollout.Workload {
	if w.rested != nil {
		return *w.rested
	}
	return w.ObserveWorkload(rolloutName)
}

// setsPrint tells apart the states of what hangs on the workload.
func (w *workloadObject) setsPrint(rolloutName string) string {
	if !w.there() {
		return ""
	}
	return fmt.Sprint(w.see(rolloutName).Revisions)
}

func (w *workloadObject) held() bool {
	_, held := w.Live.GetAnnotations()[api.AnnotationInProgressing]
	return held
}

// selector finds what hangs on the workload, and maybe more.
func (w *workloadObject) selector() string {
	fields, found, _ := unstructured.NestedMap(w.Live.Object, "spec", "selector")
	selector := &metav1.LabelSelector{}
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, selector) != nil {
		return ""
	}
	return metav1.FormatLabelSelector(selector)
}

// revisionKey is the label by which Services tell the revisions of the workload apart.
func (s *Snapshot) revisionKey() string {
	if kind, ok := workload.KindOf(s.spec.Workload); ok {
		return kind.HashLabel
	}
	if s.object.there() {
		return s.object.kind.HashLabel
	}
	return api.LabelPodTemplateHash
}

// workload is the workload's metadata, nil when there is none.
func (s *Snapshot) workload() metav1.Object {
	switch {
	case s.deployment != nil:
		return s.deployment
	case s.object.there():
		return s.object.Live
	}
	return nil
}

// readObject reads a workload that is no Deployment.
func (o *observation) readObject(ctx context.Context) {
	s, ref := o.snapshot, o.snapshot.spec.Workload
	if s.object == nil {
		s.object = &workloadObject{}
	}
	o.reads.Go(func() error {
		of := kind{ref.APIVersion, ref.Kind}
		found, err := o.resolve(ctx, of)
		var unserved *errUnserved
		switch {
		case errors.As(err, &unserved), err == nil && !found.namespaced:
			o.fresh(partWorkload)()
			o.problem(workloadUnserved(ref))
			return nil
		case err != nil:
			return err
		}
		s.object.resource = found.GroupVersionResource
		on := o.target("get", found.Group, found.Resource, ref.Name)
		on.workload = true
		o.read(ctx, on, func(ctx context.Context) error {
			live, err := o.fetchObject(ctx, s.object.resource, ref.Name)
			if api.Unserved(err) { // its CustomResourceDefinition was deleted meanwhile
				o.client.kinds.forget(of)
				o.problem(workloadUnserved(ref))
				live, err = nil, nil
			}
			o.sawObject(live)
			return err
		})
		return nil
	})
}

func (o *observation) fetchObject(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return fetch(ctx, o, query[*unstructured.Unstructured]{
		mirror: o.client.mirrors.workload(resource), name: o.named(name), expected: true, agreed: true, complete: markedWorkload, answered: o.fresh(partWorkload),
		call: func(ctx context.Context) (*unstructured.Unstructured, error) {
			return o.client.objects.Resource(resource).Namespace(o.namespace).Get(ctx, name, metav1.GetOptions{})
		},
	})
}

// sawObject takes in a workload, if it is of a kind that can be released.
func (o *observation) sawObject(live *unstructured.Unstructured) {
	w, ref := o.snapshot.object, o.snapshot.spec.Workload
	w.Live = nil
	if live == nil {
		return
	}
	var known bool
	if w.kind, known = workload.KindOfObject(live); !known {
		unknown := workloadUnknown(ref, w.resource, o.namespace)
		unknown.Unknown = o.snapshot.state().Releasing() // it was known, and is held
		o.problem(unknown)
		return
	}
	w.Live = live
}

// readsHanging reports whether what hangs on the workload is to be read. At rest it is as it was while the workload is: a pod that
// comes or goes, or becomes ready, is written into the status.
func (o *observation) readsHanging() bool {
	s, w := o.snapshot, o.snapshot.object
	w.rested = nil
	if o.source == fromServer || s.state().Releasing() || w.held() {
		return true
	}
	w.rested = o.client.rested.get(w.Live, s.rollout.Name)
	return w.rested == nil
}

// readObjectHanging reads the revisions and the pods of a workload that is no Deployment.
func (o *observation) readObjectHanging(ctx context.Context) {
	w, c := o.snapshot.object, o.client
	if !o.readsHanging() {
		return
	}
	if o.source == fromMemory {
		o.reads.Go(func() error { return errUnknown })
		return
	}
	w.Revisions, w.Pods = nil, nil
	options := metav1.ListOptions{LabelSelector: w.selector()}
	c.reads.live.Add(2)
	o.read(ctx, o.target("list", appsv1.GroupName, revisions, ""), func(ctx context.Context) error {
		found, err := c.apps.ControllerRevisions(o.namespace).List(ctx, options)
		if err != nil {
			return err
		}
		w.Revisions = pointers(found.Items)
		o.listed.Add(1)
		return nil
	})
	o.read(ctx, o.target("list", "", "pods", ""), func(ctx context.Context) error {
		found, err := c.core.Pods(o.namespace).List(ctx, options)
		if err != nil {
			return err
		}
		w.Pods = pointers(found.Items)
		for _, pod := range w.Pods {
			trimPod(pod)
		}
		o.listed.Add(1)
		return nil
	})
}

// keepHanging takes in that what hangs on a workload has been read, and remembers what is seen of one at rest.
func (o *observation) keepHanging() {
	s, w := o.snapshot, o.snapshot.object
	if w.rested != nil {
		return
	}
	s.live[partSets] = true
	if o.listed.Load() == 2 && !s.state().Releasing() && !w.held() {
		o.client.rested.put(w.Live, s.rollout.Name, w.see(s.rollout.Name))
	}
}

func workloadUnserved(ref rollout.Ref) rollout.Problem {
	install := "install what defines that kind (kubectl get crd shows those that are there)"
	if groupOf(ref) == groupKruise {
		install = "install OpenKruise (https://openkruise.io/docs/installation)"
	}
	return rollout.Problem{Reason: rollout.HoldWorkloadMissing, Message: fmt.Sprintf(
		"Workload Not Found; this cluster does not serve %s of %s: %s, or correct spec.workloadRef", ref.Kind, ref.APIVersion, install)}
}

func workloadUnknown(ref rollout.Ref, resource schema.GroupVersionResource, namespace string) rollout.Problem {
	return rollout.Problem{Reason: rollout.HoldUnsupported, Message: fmt.Sprintf(
		"Sluice does not know how to release %s of %s. If it works as a StatefulSet does, say so by a label: kubectl label %s %s -n %s %s=%s",
		ref, ref.APIVersion, resource.GroupResource(), ref.Name, namespace, api.LabelWorkloadType, api.WorkloadTypeStatefulSet)}
}
