package cache

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// This file says which fields of watched objects stay in memory. An informer calls each function with an object that it
// has not shared yet, so the function may change it. A function does nothing to an object that is trimmed already.

// transformWith makes a function for one type a transformation for all objects that an informer gets.
func transformWith[T Object](trim func(T)) func(any) (any, error) {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			trim(o)
		}
		return obj, nil
	}
}

func trimMetadata(o metav1.Object) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	o.SetAnnotations(annotations)
}

// trimRollout keeps the managers that have written the status, other than Sluice: commands come as writes of the
// status.
func trimRollout(r *api.Rollout) {
	others := slices.DeleteFunc(r.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource != "status" || e.Manager == api.FieldManager
	})
	trimMetadata(r)
	r.ManagedFields = slices.Clip(others)
}

// trimDeployment keeps only the identity of a Deployment without a mark of Sluice. See [MarkedDeployment]. Of the others it keeps the managers of the pod
// template.
func trimDeployment(d *appsv1.Deployment) {
	if !MarkedDeployment(d) {
		d.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion}
		d.Spec, d.Status = appsv1.DeploymentSpec{}, appsv1.DeploymentStatus{}
		return
	}
	managers := api.TemplateManagers(d.ManagedFields)
	trimMetadata(d)
	d.ManagedFields, d.Status.Conditions = managers, nil
}

// MarkedDeployment reports whether Sluice adopted, held or created a Deployment. Of other Deployments the cache knows
// only that they exist.
func MarkedDeployment(d *appsv1.Deployment) bool {
	_, claimed := d.Annotations[api.AnnotationRollout]
	_, held := d.Annotations[api.AnnotationInProgressing]
	return claimed || held || d.Labels[api.LabelWorkloadType] != "" || d.Labels[api.LabelRolloutUID] != ""
}

// trimWorkload keeps only the identity of a workload without a mark of Sluice. See [MarkedWorkload].
func trimWorkload(u *unstructured.Unstructured) {
	if !MarkedWorkload(u) {
		u.Object = map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": map[string]any{
			"namespace": u.GetNamespace(), "name": u.GetName(), "uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion(),
		}}
		return
	}
	managers := api.TemplateManagers(u.GetManagedFields())
	trimMetadata(u)
	if len(managers) > 0 {
		u.SetManagedFields(managers)
	}
	unstructured.RemoveNestedField(u.Object, "status", "conditions")
}

// MarkedWorkload reports whether Sluice adopted or held a workload that is not a Deployment.
func MarkedWorkload(u *unstructured.Unstructured) bool {
	annotations := u.GetAnnotations()
	_, claimed := annotations[api.AnnotationRollout]
	_, held := annotations[api.AnnotationInProgressing]
	return claimed || held || u.GetLabels()[api.LabelWorkloadType] != ""
}

func trimReplicaSet(set *appsv1.ReplicaSet) {
	trimMetadata(set)
	set.Spec.Selector, set.Status.Conditions = nil, nil
}

func trimEndpointSlice(slice *discoveryv1.EndpointSlice) {
	trimMetadata(slice)
	for i := range slice.Ports {
		slice.Ports[i] = discoveryv1.EndpointPort{Name: slice.Ports[i].Name, Port: slice.Ports[i].Port}
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		*e = discoveryv1.Endpoint{Conditions: e.Conditions, TargetRef: e.TargetRef, Addresses: slices.Clip(e.Addresses[:min(1, len(e.Addresses))])}
	}
}

// trimGateway keeps the managers of an object and their times, but not the fields that they own. The rest of the object
// must stay complete, to the last annotation.
func trimGateway(u *unstructured.Unstructured) {
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].FieldsV1 = nil
	}
	if len(entries) > 0 {
		u.SetManagedFields(entries)
	}
}
