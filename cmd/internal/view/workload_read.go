package view

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
)

// readWorkload adds a workload that is not a Deployment, and the objects that its selector selects.
func (r *Reader) readWorkload(ctx context.Context, v *View, ref api.ObjectRef) {
	what, namespace := ref.Kind+" "+ref.Name, v.Rollout.Namespace
	resource, err := r.ResourceOf(ref)
	if err != nil {
		v.addUnread(what, err)
		return
	}
	object, err := r.objects.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		v.addUnread(what, err)
		return
	}
	v.Workload = object
	selected, err := selectedBy(object)
	if err != nil {
		v.addUnread("What belongs to "+what, err)
		return
	}
	if revisions, err := r.kube.AppsV1().ControllerRevisions(namespace).List(ctx, selected); err != nil {
		v.addUnread("ControllerRevisions", err)
	} else {
		v.ControllerRevisions = revisions.Items
	}
	if pods, err := r.kube.CoreV1().Pods(namespace).List(ctx, selected); err != nil {
		v.addUnread("Pods", err)
	} else {
		v.Pods = pods.Items
	}
}

// selectedBy selects the pods and the revisions of a workload.
func selectedBy(object *unstructured.Unstructured) (metav1.ListOptions, error) {
	field, _, _ := unstructured.NestedMap(object.Object, "spec", "selector")
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(field, &selector); err != nil {
		return metav1.ListOptions{}, fmt.Errorf("read selector of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&selector)}, nil
}

// workloadSources returns the watches on a workload that is not a Deployment.
func (r *Reader) workloadSources(ctx context.Context, object *unstructured.Unstructured, ref api.ObjectRef) []watchSource {
	resource, err := r.ResourceOf(ref)
	if err != nil {
		return nil
	}
	namespace := object.GetNamespace()
	list := []watchSource{func() (watch.Interface, error) {
		return r.objects.Resource(resource).Namespace(namespace).Watch(ctx, nameSelector(object.GetName()))
	}}
	if selected, err := selectedBy(object); err == nil {
		list = append(list, func() (watch.Interface, error) { return r.kube.CoreV1().Pods(namespace).Watch(ctx, selected) })
	}
	return list
}
