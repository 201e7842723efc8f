// Package revision finds the earlier pod templates of a workload, and restores one of them. It knows nothing of releases.
//
// Its one invariant: a patch applies only to the version of the workload that was read. It changes nothing except the pod template, its rollout-id and the
// change cause.
package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/workload"
)

// annotationCause is the annotation in which kubectl stores and shows the cause of a change.
const annotationCause = "kubernetes.io/change-cause"

// Revision is one pod template from the history of a workload.
type Revision struct {
	// Number is the number in kubectl rollout history.
	Number int64
	// Name is the name of the object that stores the revision, and Hash is the hash in a label of its pods.
	Name, Hash string
	// Digest is equal for equal templates.
	Digest   string
	Template map[string]any
	Created  time.Time
	// Cause is the recorded cause of the change, if there is one.
	Cause string
	// RolloutID is the rollout-id of its release; "" if none is recorded.
	RolloutID string
}

// Is reports whether id is a hash, a digest or the name of the revision.
func (r Revision) Is(id string) bool {
	return id != "" && (id == r.Hash || id == r.Digest || id == r.Name)
}

// Images returns the images of the containers, each once.
func (r Revision) Images() []string { return imagesOf(r.Template) }

func imagesOf(template map[string]any) []string {
	var list []string
	for _, field := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(template, "spec", field)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			if image, _ := container["image"].(string); image != "" && !slices.Contains(list, image) {
				list = append(list, image)
			}
		}
	}
	return list
}

// templateDigest is equal for equal templates, and "" without a template.
func templateDigest(template map[string]any) string {
	var typed corev1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed) != nil {
		return ""
	}
	return workload.TemplateRevision(typed)
}

// Workload is a workload with its earlier templates.
type Workload struct {
	Object *unstructured.Unstructured
	// Revisions are oldest first. The revision of the current template may be missing, because a held template has run nowhere.
	Revisions []Revision
}

// Digest returns the digest of the current template.
func (w Workload) Digest() string {
	template, _, _ := unstructured.NestedMap(w.Object.Object, "spec", "template")
	return templateDigest(template)
}

func (w Workload) displayName() string { return w.Object.GetKind() + " " + w.Object.GetName() }

// ErrSame is wrapped by the error of ChooseRevision when the workload has the template already.
var ErrSame = errors.New("there is nothing to undo")

// ChooseRevision returns the revision with a number. For number 0 it returns the revision named stable. If stable is "" too, it returns the latest revision
// whose template differs from the current one.
func (w Workload) ChooseRevision(number int64, stable string) (Revision, error) {
	present := w.Digest()
	i := -1
	switch {
	case number != 0:
		if i = slices.IndexFunc(w.Revisions, func(r Revision) bool { return r.Number == number }); i < 0 {
			return Revision{}, fmt.Errorf("%s has no revision %d; %s", w.displayName(), number, w.choiceHint())
		}
	case stable != "":
		if i = slices.IndexFunc(w.Revisions, func(r Revision) bool { return r.Is(stable) }); i < 0 {
			return Revision{}, fmt.Errorf("the stable version %s of %s is not kept any more; %s", stable, w.displayName(), w.choiceHint())
		}
	default:
		for j, r := range w.Revisions {
			if r.Digest != present {
				i = j
			}
		}
		if i < 0 {
			return Revision{}, fmt.Errorf("%w: %s has no older revision", ErrSame, w.displayName())
		}
	}
	if r := w.Revisions[i]; r.Digest == present {
		return r, fmt.Errorf("%w: %s has the template of revision %d already", ErrSame, w.displayName(), r.Number)
	}
	return w.Revisions[i], nil
}

// choiceHint lists the available revisions.
func (w Workload) choiceHint() string {
	if len(w.Revisions) == 0 {
		return "no such revision exists; apply the manifest of the version that should run"
	}
	var numbers []string
	for _, r := range w.Revisions {
		numbers = append(numbers, strconv.FormatInt(r.Number, 10))
	}
	return "choose one with --to-revision: " + strings.Join(numbers, ", ")
}

// RestoredID returns the rollout-id of the workload after the template of a revision is restored, "" for none.
func (w Workload) RestoredID(to Revision) string { return workload.RestoredID(w.Object, to.RolloutID) }

// TemplatePatch returns the JSON patch that restores the template of a revision and its rollout-id.
func (w Workload) TemplatePatch(to Revision) ([]byte, error) {
	const cause = "/metadata/annotations/kubernetes.io~1change-cause"
	patch := []map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": w.Object.GetResourceVersion()},
		{"op": "replace", "path": "/spec/template", "value": to.Template},
	}
	_, noted := w.Object.GetAnnotations()[annotationCause]
	switch {
	case to.Cause != "" && w.Object.GetAnnotations() == nil:
		patch = append(patch, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]string{annotationCause: to.Cause}})
	case to.Cause != "":
		patch = append(patch, map[string]any{"op": "add", "path": cause, "value": to.Cause})
	case noted:
		patch = append(patch, map[string]any{"op": "remove", "path": cause})
	}
	return json.Marshal(append(patch, workload.RestoreRolloutID(w.Object, to.RolloutID)...))
}
