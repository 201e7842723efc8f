package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// SetImages adds the images of a permit to a patch that holds the workload. live is the workload with its whole template. A container without an image in
// the action stays as it is.
func (p Patch) SetImages(live *unstructured.Unstructured, a rollout.SetImages) (Patch, error) {
	pod := map[string]any{}
	for _, field := range []string{"containers", "initContainers"} {
		list, found, err := unstructured.NestedSlice(live.Object, "spec", "template", "spec", field)
		if err != nil {
			return nil, fmt.Errorf("read the containers of %s: %w", a.Workload, err)
		}
		if !found {
			continue
		}
		for _, entry := range list {
			if container, is := entry.(map[string]any); is {
				name, _ := container["name"].(string)
				if image, given := a.Images[name]; given {
					container["image"] = image
				}
			}
		}
		pod[field] = list
	}
	p.child("spec")["template"] = map[string]any{"spec": pod}
	p.child("metadata", "annotations")[api.AnnotationDelivered] = a.Permit.String()
	if a.Version != "" {
		p.nameVersion(live, a.Version)
	}
	return p, nil
}

// nameVersion adds the name of a version to a patch, wherever the workload has such a name: in its annotation, or else in its rollout-id. A workload without one
// gets the annotation.
func (p Patch) nameVersion(live *unstructured.Unstructured, version string) {
	_, named := live.GetAnnotations()[api.AnnotationVersion]
	_, annotated := live.GetAnnotations()[api.AnnotationRolloutID]
	_, labelled := live.GetLabels()[api.LabelRolloutID]
	if named || !annotated && !labelled || labelled && len(validation.IsValidLabelValue(version)) > 0 {
		p.child("metadata", "annotations")[api.AnnotationVersion] = version
		return
	}
	if annotated {
		p.child("metadata", "annotations")[api.AnnotationRolloutID] = version
	}
	if labelled {
		p.child("metadata", "labels")[api.LabelRolloutID] = version
	}
}

// child returns a map in the patch, which it adds if it is not there.
func (p Patch) child(path ...string) map[string]any {
	at := map[string]any(p)
	for _, key := range path {
		next, is := at[key].(map[string]any)
		if !is {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	return at
}
