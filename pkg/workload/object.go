package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/rollout"
)

// Object is a workload other than a Deployment, with its dependent objects. Live has a kind that [KindOfObject] knows; of any other kind the package
// reads nothing and writes only marks. Revisions and Pods may hold objects of other owners, which the package leaves out.
type Object struct {
	Live      *unstructured.Unstructured
	Revisions []*appsv1.ControllerRevision
	Pods      []*corev1.Pod
}

func (o Object) kind() Kind {
	kind, _ := KindOfObject(o.Live)
	return kind
}

// NewPods are the pods of its template that are not being deleted.
func (o Object) NewPods() []*corev1.Pod {
	return o.podsOf(o.observedRevisions(), TemplateRevision(o.podTemplate()))
}

// UnlabelledKeptPods returns the NewPods that a rollback with that id has not labelled as pods that it keeps.
func (o Object) UnlabelledKeptPods(id string) []*corev1.Pod {
	return slices.DeleteFunc(o.NewPods(), func(pod *corev1.Pod) bool { return IsKeptPod(pod, id) })
}

// podsOf are the pods of the sets of a revision.
func (o Object) podsOf(sets []rollout.Revision, revision string) []*corev1.Pod {
	label := o.kind().HashLabel
	return slices.DeleteFunc(o.controlledPods(), func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(sets, func(set rollout.Revision) bool {
			return set.Revision == revision && set.Hash == pod.Labels[label]
		})
	})
}

// controlledPods are those that it controls and that are not being deleted.
func (o Object) controlledPods() []*corev1.Pod {
	var mine []*corev1.Pod
	for _, pod := range o.Pods {
		if pod.DeletionTimestamp == nil && metav1.IsControlledBy(pod, o.Live) {
			mine = append(mine, pod)
		}
	}
	return mine
}

// controlledRevisions are those that it controls, oldest first.
func (o Object) controlledRevisions() []*appsv1.ControllerRevision {
	var mine []*appsv1.ControllerRevision
	for _, r := range o.Revisions {
		if metav1.IsControlledBy(r, o.Live) {
			mine = append(mine, r)
		}
	}
	slices.SortFunc(mine, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return mine
}

// hashOf is how the pods of a revision of that name are labelled.
func (k Kind) hashOf(revision string) string {
	if k.ShortHash {
		return revision[strings.LastIndex(revision, "-")+1:]
	}
	return revision
}

// podTemplate returns the pod template of the workload, or an empty one if it cannot be read.
func (o Object) podTemplate() corev1.PodTemplateSpec {
	found, _, _ := unstructured.NestedFieldNoCopy(o.Live.Object, "spec", "template")
	body, _ := found.(map[string]any)
	var template corev1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(body, &template) != nil {
		return corev1.PodTemplateSpec{}
	}
	return template
}

// revised is what a ControllerRevision holds of its workload.
type revised struct {
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
}

// templateIn is the template that a ControllerRevision holds; ok is false if it is not readable.
func templateIn(r *appsv1.ControllerRevision) (template corev1.PodTemplateSpec, ok bool) {
	var data revised
	ok = json.Unmarshal(r.Data.Raw, &data) == nil && json.Unmarshal(data.Spec.Template, &template) == nil
	return template, ok
}

// revisionIn is the Revision of the template that a ControllerRevision holds, "" if it is not readable.
func revisionIn(r *appsv1.ControllerRevision) string {
	template, ok := templateIn(r)
	if !ok {
		return ""
	}
	return TemplateRevision(template)
}

// RestoreTemplate is the JSON patch that gives the workload the template of the revision of that hash again, and the rollout-id of the stable
// version. The template is replaced as it stands there, with fields that only the workload's own controller knows. version is as for the function
// RestoreTemplate.
func (o Object) RestoreTemplate(hash string, version *string) ([]byte, error) {
	kind := o.kind()
	for _, r := range o.controlledRevisions() {
		if kind.hashOf(r.Name) != hash {
			continue
		}
		template, err := plainTemplate(r)
		if err != nil {
			return nil, err
		}
		return json.Marshal(templatePatch(o.Live, template, version))
	}
	return nil, fmt.Errorf("%s %s has no revision %s", o.Live.GetKind(), o.Live.GetName(), hash)
}

// plainTemplate is the template of a revision without what its encoding added: the directive of a strategic merge patch, and a time that
// is null, which a schema may refuse.
func plainTemplate(r *appsv1.ControllerRevision) (map[string]json.RawMessage, error) {
	var data revised
	var template, metadata map[string]json.RawMessage
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("read the revision %s: %w", r.Name, err)
	}
	if err := json.Unmarshal(data.Spec.Template, &template); err != nil {
		return nil, fmt.Errorf("read the template of the revision %s: %w", r.Name, err)
	}
	delete(template, "$patch")
	if json.Unmarshal(template["metadata"], &metadata) == nil && string(metadata["creationTimestamp"]) == "null" {
		delete(metadata, "creationTimestamp")
		body, err := json.Marshal(metadata)
		if err != nil {
			return nil, fmt.Errorf("write the template of the revision %s: %w", r.Name, err)
		}
		template["metadata"] = body
	}
	return template, nil
}
