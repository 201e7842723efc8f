// Package hold decides what an update of an adopted workload is stored as: a change of its pod template does not roll by itself, and
// what holds it survives every write of others. The admission policies sluice-hold-<kind> and sluice-guard-<kind> decide the same
// in the words of the API server; this is the same decision for clusters that do not serve such policies, and test/hold puts both to
// one table of cases.
//
// It is pure: it knows no client, no clock and no log, and it denies nothing. Its one invariant: deciding on what it decided changes
// nothing, so that it may be asked any number of times in one request.
package hold

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// Update is the operation of a Request that this package decides on, as an admission review names it.
const Update = "UPDATE"

// revision is the annotation of the Deployment controller that a replace by the user's manifest drops.
const revision = "deployment.kubernetes.io/revision"

// Request is a write of a workload's main resource. The policies do not see writes of subresources.
type Request struct {
	// Operation is what an admission review calls it. Username is the full name of who writes, and Executor that of the executors, whose writes pass unchanged.
	Operation, Username, Executor string
	// Old is the stored object, and New the object that the write would store, both with the API server's defaults. The package changes neither.
	Old, New *unstructured.Unstructured
}

// Decide returns what shall be stored in place of New, or nil when New is right as it is.
func Decide(r Request) *unstructured.Unstructured {
	if r.Operation != Update || r.Username == r.Executor || r.Old == nil || r.New == nil {
		return nil
	}
	family := kindRulesOf(r)
	if family == nil && r.New.GroupVersionKind().GroupKind() != deployment {
		return nil
	}
	w := newWrite(r.Old, r.New, family)
	if !w.isLabelled() {
		return nil
	}
	if w.wasAdopted() || w.inProgress {
		w.guardWrite()
	}
	switch {
	case !w.hasRollout() || !w.isRelease || !w.hasPods():
	case family == nil:
		w.holdDeployment()
	case w.begins:
		w.holdFields()
	}
	w.writeMetadata()
	if equality.Semantic.DeepEqual(w.out.Object, r.New.Object) {
		return nil
	}
	return w.out
}

// write is one update while it is decided on.
type write struct {
	old, new, out *unstructured.Unstructured
	// The annotations and labels of old and new are read only. The fields without a prefix become the annotations and labels of out.
	oldAnnotations, newAnnotations, annotations map[string]string
	oldLabels, newLabels, labels                map[string]string

	inProgress, isRelease bool
	// begins: a release begins with this very request.
	begins bool
	// lost says that something of ours was dropped or changed, and had to be put back.
	lost map[string]bool
	// kindRules is nil for a Deployment, parking for each workload that is not taken over, and shrinking for each one that is not scaled down.
	kindRules  *kindRules
	takeover   *takeover
	scaledDown *scaledDown
}

func newWrite(old, updated *unstructured.Unstructured, family *kindRules) *write {
	w := &write{
		kindRules: family,
		old:       old, new: updated, out: updated.DeepCopy(),
		oldAnnotations: old.GetAnnotations(), newAnnotations: updated.GetAnnotations(), annotations: updated.GetAnnotations(),
		oldLabels: old.GetLabels(), newLabels: updated.GetLabels(), labels: updated.GetLabels(),
		lost: map[string]bool{},
	}
	_, w.inProgress = w.oldAnnotations[api.AnnotationInProgressing]
	w.isRelease = isRelease(old, updated)
	w.begins = !w.inProgress && w.isRelease && w.hasPods() && (family == nil || family.rollsByItself(updated))
	if w.annotations == nil {
		w.annotations = map[string]string{}
	}
	if w.labels == nil {
		w.labels = map[string]string{}
	}
	return w
}

// isLabelled is what the selector of the policies says: it looks at both objects, so dropping the label does not help.
func (w *write) isLabelled() bool {
	_, was := w.oldLabels[api.LabelWorkloadType]
	_, is := w.newLabels[api.LabelWorkloadType]
	return was || is
}

func (w *write) wasAdopted() bool {
	_, is := w.oldAnnotations[api.AnnotationRollout]
	return is
}

// rolloutName is the Rollout that the workload belongs to. The old object counts first: a manifest that knows nothing of us drops it.
func (w *write) rolloutName() string {
	if name, is := w.oldAnnotations[api.AnnotationRollout]; is {
		return name
	}
	return w.newAnnotations[api.AnnotationRollout]
}

func (w *write) hasRollout() bool { return w.rolloutName() != "" }

// hasPods reports whether the workload has pods to hold. A scaled-down Deployment keeps its pods, so the number in the request does not count.
func (w *write) hasPods() bool {
	return replicasOf(w.new) > 0 || w.kindRules == nil && isScaledDown(w.oldAnnotations)
}

// replicasOf an object; those left to an autoscaler count as one.
func replicasOf(u *unstructured.Unstructured) int64 {
	n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return n
}

// wasHeld is also false in progress: near the end of a release, and while the workload rolls, the executor has released it.
func (w *write) wasHeld() bool { return w.inProgress && isPaused(w.old) }

func isPaused(u *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	return value
}

func (w *write) setField(value any, path ...string) {
	// It fails only where a parent is no object, and such a request the API server has refused before.
	_ = unstructured.SetNestedField(w.out.Object, value, path...)
}

// holdDeployment pauses and marks. While a hold is on, spec.paused and its memory are the guard's to decide.
func (w *write) holdDeployment() {
	if !w.wasHeld() {
		w.setField(true, "spec", "paused")
	}
	mark, is := w.oldAnnotations[api.AnnotationInProgressing]
	if !is {
		mark = inProgressing(w.rolloutName())
	}
	w.annotations[api.AnnotationInProgressing] = mark
	switch {
	case w.inProgress:
	case w.userPaused():
		w.annotations[originalPaused] = "true"
	default:
		delete(w.annotations, originalPaused)
	}
}

// userPaused says whether spec.paused: true is the user's own wish. Where the mark stands on the new object it is ours: this was
// decided before in this request, or the user applies what he once exported in the middle of a release.
func (w *write) userPaused() bool {
	if _, marked := w.newAnnotations[api.AnnotationInProgressing]; marked {
		return w.newAnnotations[originalPaused] == "true"
	}
	return isPaused(w.new)
}

func inProgressing(rollout string) string {
	return `{"rolloutName":"` + rollout + `"}`
}

// writeMetadata writes annotations and labels back.
func (w *write) writeMetadata() {
	if !maps.Equal(w.annotations, w.newAnnotations) {
		w.out.SetAnnotations(w.annotations)
	}
	if !maps.Equal(w.labels, w.newLabels) {
		w.out.SetLabels(w.labels)
	}
}

// isRelease reports whether a change is a release: another rollout-id in the annotation, or another pod template. Under the rollout-id of the stable
// version another template is no release unless a release is under way. The label pod-template-hash belongs to the controller and does not count.
func isRelease(old, updated *unstructured.Unstructured) bool {
	id, was := updated.GetAnnotations()[api.AnnotationRolloutID], old.GetAnnotations()[api.AnnotationRolloutID]
	_, inProgress := old.GetAnnotations()[api.AnnotationInProgressing]
	switch {
	case id != "" && id != was:
		return true
	case id != "" && !inProgress && api.RolloutIDLetsThrough(old):
		return false
	}
	return !equality.Semantic.DeepEqual(podTemplate(old), podTemplate(updated))
}

// podTemplate is the pod template as it is compared: empty objects count as absent.
func podTemplate(u *unstructured.Unstructured) map[string]any {
	found, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	all, _ := found.(map[string]any)
	all = maps.Clone(all)
	metadata, _ := all["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	labels, _ := metadata["labels"].(map[string]any)
	labels = maps.Clone(labels)
	delete(labels, "pod-template-hash")
	if delete(metadata, "labels"); len(labels) > 0 {
		metadata["labels"] = labels
	}
	if delete(all, "metadata"); len(metadata) > 0 {
		all["metadata"] = metadata
	}
	return all
}
