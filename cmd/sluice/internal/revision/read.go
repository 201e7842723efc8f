package revision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
)

// annotationNumber holds the revision number that the Deployment controller gives a ReplicaSet.
const annotationNumber = "deployment.kubernetes.io/revision"

// labelHash holds the hash that the StatefulSet controller gives a ControllerRevision.
const labelHash = "controller.kubernetes.io/hash"

// ReadWorkload reads a workload of a resource and its revisions. A Deployment has its revisions in ReplicaSets, any other workload in ControllerRevisions. It
// returns the unchanged errors of the API server.
func ReadWorkload(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) (Workload, error) {
	object, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Workload{}, err
	}
	w := Workload{Object: object}
	keeper, of := "controllerrevisions", fromControllerRevision
	if resource.Group == "apps" && resource.Resource == "deployments" {
		keeper, of = "replicasets", fromReplicaSet
	}
	selector, err := selectorOf(object)
	if err != nil {
		return w, err
	}
	kept, err := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: keeper}).Namespace(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return w, err
	}
	for _, o := range kept.Items {
		if owner := metav1.GetControllerOf(&o); owner == nil || owner.UID != object.GetUID() {
			continue
		}
		r := of(&o)
		r.Name, r.Created, r.Cause, r.Digest = o.GetName(), o.GetCreationTimestamp().Time, o.GetAnnotations()[annotationCause], templateDigest(r.Template)
		r.RolloutID = o.GetAnnotations()[api.AnnotationRolloutID]
		if r.Template != nil {
			w.Revisions = append(w.Revisions, r)
		}
	}
	slices.SortFunc(w.Revisions, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return w, nil
}

func selectorOf(object *unstructured.Unstructured) (string, error) {
	labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return "", fmt.Errorf("read selector of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}), nil
}

func fromReplicaSet(set *unstructured.Unstructured) Revision {
	r := Revision{Hash: set.GetLabels()[api.LabelPodTemplateHash]}
	r.Number, _ = strconv.ParseInt(set.GetAnnotations()[annotationNumber], 10, 64)
	r.Template, _, _ = unstructured.NestedMap(set.Object, "spec", "template")
	unstructured.RemoveNestedField(r.Template, "metadata", "labels", api.LabelPodTemplateHash)
	return r
}

// fromControllerRevision reads a revision that is stored as a patch of the whole template.
func fromControllerRevision(o *unstructured.Unstructured) Revision {
	r := Revision{Hash: cmp.Or(o.GetLabels()[api.LabelControllerRevisionHash], o.GetLabels()[labelHash])}
	r.Number, _, _ = unstructured.NestedInt64(o.Object, "revision")
	r.Template, _, _ = unstructured.NestedMap(o.Object, "data", "spec", "template")
	delete(r.Template, "$patch")
	return r
}
