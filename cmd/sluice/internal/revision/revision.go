// Package revision knows the pod templates that a workload had, and gives it one of them again. It knows nothing of releases.
//
// Its one invariant: a patch counts for the version of the workload that was looked at only, and changes nothing but the pod template,
// its rollout-id and the note about why it was changed.
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

// annotationCause is where kubectl keeps why a workload was changed, and shows it in its history.
const annotationCause = "kubernetes.io/change-cause"

// Revision is one pod template that a workload had.
type Revision struct {
	// Number is the one that kubectl rollout history shows.
	Number int64
	// Name is that of the object that keeps it, Hash what its pods carry in a label.
	Name, Hash string
	// Digest is equal for equal templates.
	Digest   string
	Template map[string]any
	Created  time.Time
	// Cause is why it was made, if somebody noted that down.
	Cause string
	// RolloutID is the one that its release had, "" where none is kept.
	RolloutID string
}

// Is reports whether the revision is known by that id: a hash, a digest or a name.
func (r Revision) Is(id string) bool {
	return id != "" && (id == r.Hash || id == r.Digest || id == r.Name)
}

// Images are those of the containers, each once.
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

// templateDigest is equal for equal templates, "" for what is no template.
func templateDigest(template map[string]any) string {
	var typed corev1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed) != nil {
		return ""
	}
	return workload.TemplateRevision(typed)
}

// Workload is a workload with the templates that it had.
type Workload struct {
	Object *unstructured.Unstructured
	// Revisions are oldest first. That of the present template may be missing: while it is held it has run nowhere.
	Revisions []Revision
}

// Digest is that of the present template.
func (w Workload) Digest() string {
	template, _, _ := unstructured.NestedMap(w.Object.Object, "spec", "template")
	return templateDigest(template)
}

func (w Workload) displayName() string { return w.Object.GetKind() + " " + w.Object.GetName() }

// ErrSame is wrapped by the error of Choose when the workload has the template already.
var ErrSame = errors.New("there is nothing to undo")

// ChooseRevision is the revision of a number; without one, 0, the one known as stable, and without that, "", the latest whose template is not
// the present one.
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

// choiceHint says which revisions there are.
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

// RestoredID is the rollout-id that the workload has with the template of a revision, "" for none.
func (w Workload) RestoredID(to Revision) string { return workload.RestoredID(w.Object, to.RolloutID) }

// TemplatePatch is the JSON patch that gives the workload the template of a revision, and its rollout-id with it.
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
