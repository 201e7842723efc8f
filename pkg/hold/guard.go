package hold

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

var deployment = schema.GroupKind{Group: "apps", Kind: "Deployment"}

const originalPaused = api.AnnotationOriginalPrefix + "paused"

// takeoverFields are the fields, other than spec.paused, that an executor may take over, by the names of their annotations.
func takeoverFields() []string {
	return []string{"minReadySeconds", "progressDeadlineSeconds", "maxSurge", "maxUnavailable", "type"}
}

// guardWrite restores the values of the release, records the owner's wishes for held fields, and leaves all other fields of the request as they are.
func (w *write) guardWrite() {
	if w.kindRules == nil {
		w.takeover, w.scaledDown = takeoverOf(w), scaledDownOf(w)
	}
	for _, mark := range w.ownAnnotations() {
		w.keepAnnotation(w.oldAnnotations, w.annotations, mark)
	}
	if old, was := w.oldAnnotations[revision]; was && w.kindRules == nil {
		// Of a paused Deployment with a new template the controller writes it no more, and the user's history would break.
		if _, is := w.annotations[revision]; !is {
			w.annotations[revision], w.lost[revision] = old, true
		}
	}
	w.keepLabel()
	silent := true
	if w.kindRules != nil {
		silent = w.guardFields()
	} else {
		w.guardPaused()
		w.takeover.restoreSpeed(w)
		w.scaledDown.restoreReplicas(w)
		silent = (w.wasHeld() || isPaused(w.new) == isPaused(w.old)) && w.takeover.asksNothing(w) && w.scaledDown.asksNothing(w)
	}
	if silent && w.onlyDrops() {
		w.setField(managedFields(w.old), "metadata", "managedFields")
	}
}

// ownAnnotations are all annotations of Sluice except those with rules of their own: original.paused and, on a Deployment that is taken over or
// scaled down, the other originals.
func (w *write) ownAnnotations() []string {
	list := []string{api.AnnotationInProgressing, api.AnnotationRollout, api.AnnotationStableRolloutID, api.AnnotationEpoch, api.AnnotationDelivered}
	if w.kindRules != nil && w.kindRules.canSurge() {
		list = append(list, api.AnnotationSurgeReplicas)
	}
	switch {
	case w.kindRules != nil && !w.inProgress:
		for _, f := range w.kindRules.fields {
			list = append(list, f.AnnotationKey())
		}
	case w.kindRules == nil && w.takeover == nil:
		for _, field := range takeoverFields() {
			list = append(list, api.AnnotationOriginalPrefix+field)
		}
	}
	if w.kindRules == nil {
		list = append(list, api.AnnotationAssignedReplicas)
		if w.scaledDown == nil {
			list = append(list, originalReplicas)
		}
	}
	return list
}

// keepAnnotation gives a mark its stored value, and removes a mark that was not stored. If the release begins with this request, the marks may be
// those that the hold sets; the hold sets all of them but the id of the stable version.
func (w *write) keepAnnotation(from, to map[string]string, key string) {
	old, was := from[key]
	value, is := to[key]
	switch {
	case was && (!is || value != old):
		to[key], w.lost[key] = old, true
	case is && !was && (!w.begins || key == api.AnnotationStableRolloutID):
		delete(to, key)
	}
}

// keepLabel is for the label alone: unlike an annotation it may be put on by anybody.
func (w *write) keepLabel() {
	old, was := w.oldLabels[api.LabelWorkloadType]
	if value, is := w.labels[api.LabelWorkloadType]; was && (!is || value != old) {
		w.labels[api.LabelWorkloadType], w.lost[api.LabelWorkloadType] = old, true
	}
}

func (w *write) guardPaused() {
	if w.wasHeld() && !isPaused(w.new) {
		w.setField(true, "spec", "paused")
	}
	if original := w.originalPaused(); original != "" {
		w.annotations[originalPaused] = original
	} else {
		delete(w.annotations, originalPaused)
	}
}

// originalPaused is the value that spec.paused gets when the release ends; "" for no annotation. While the workload is held, a true in the request
// says nothing new. Any other value takes the user's own pause back, and the guard records "false": without the annotation this would look like a
// manifest that never had it. A workload that was released is paused by its user, unless it has just been held.
func (w *write) originalPaused() string {
	asked, was := w.newAnnotations[originalPaused], w.oldAnnotations[originalPaused]
	switch {
	case !w.inProgress && w.begins:
		return asked
	case !w.inProgress:
		return ""
	case !w.wasHeld() && isPaused(w.new) && !(w.isRelease && w.hasPods()):
		return "true"
	case !w.wasHeld() || was == "":
		return was
	case isPaused(w.new) && asked != "false":
		return was
	}
	return "false"
}

// onlyDrops reports whether the request only drops fields that the guard restores, as each replace by the owner's manifest does. Such a request must
// leave no trace, but the API server has already taken the dropped fields from their managers, so the managers are restored as well. If the request
// drops nothing, it asks for a change of the managers alone, and keeps it.
func (w *write) onlyDrops() bool {
	return len(w.lost) > 0 && managedFields(w.new) != nil && managedFields(w.old) != nil &&
		equality.Semantic.DeepEqual(w.specWithoutGuarded(w.old), w.specWithoutGuarded(w.new)) &&
		equality.Semantic.DeepEqual(w.old.GetOwnerReferences(), w.new.GetOwnerReferences()) &&
		slices.Equal(w.old.GetFinalizers(), w.new.GetFinalizers()) &&
		len(w.oldAnnotations)+len(w.oldLabels) <= 200 && len(w.newAnnotations)+len(w.newLabels) <= 200 &&
		w.otherMetadataEqual()
}

// otherMetadataEqual says that labels and annotations that are not put back are the same in old and new.
func (w *write) otherMetadataEqual() bool {
	ours := func(key string) bool { return strings.HasPrefix(key, api.AnnotationOriginalPrefix) }
	all := w.takeover != nil || w.kindRules != nil && w.inProgress
	remembered := func(key string) bool { return all && ours(key) || w.scaledDown != nil && key == originalReplicas }
	for key := range w.oldAnnotations {
		if _, is := w.newAnnotations[key]; !is && !w.lost[key] && !ours(key) {
			return false
		}
	}
	for key, value := range w.newAnnotations {
		if old, was := w.oldAnnotations[key]; !w.lost[key] && !remembered(key) && (!was || old != value) {
			return false
		}
	}
	without := func(all map[string]string) map[string]string {
		all = maps.Clone(all)
		delete(all, api.LabelWorkloadType)
		return all
	}
	return maps.Equal(without(w.oldLabels), without(w.newLabels))
}

// specWithoutGuarded returns the spec without the fields that the guard restores.
func (w *write) specWithoutGuarded(u *unstructured.Unstructured) map[string]any {
	spec, _ := u.Object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	if w.kindRules != nil {
		return w.specWithoutHeld(spec)
	}
	delete(spec, "paused")
	if w.takeover != nil {
		for _, field := range []string{minReady, deadline, "strategy"} {
			delete(spec, field)
		}
	}
	if w.scaledDown != nil {
		delete(spec, "replicas")
	}
	return spec
}

func managedFields(u *unstructured.Unstructured) []any {
	found, _, _ := unstructured.NestedFieldCopy(u.Object, "metadata", "managedFields")
	list, _ := found.([]any)
	return list
}
