package workload

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// AdoptWorkload marks the workload as the Rollout's, so that the admission policies hold its next change.
func (o Object) AdoptWorkload(rolloutName string, id rollout.StableID) Patch {
	annotations := map[string]any{api.AnnotationRollout: rolloutName}
	maps.Copy(annotations, stableIDMark(o.Live, id))
	return newPatch(o.Live, o.typeLabel(o.kind().Type), annotations, nil)
}

// HoldWorkload keeps the workload's controller from creating pods of the new version, and marks the workload as being released. It records the
// owner's values of the held fields. Values that are recorded already stay, and so does the mark of an earlier hold.
func (o Object) HoldWorkload(rolloutName string) Patch {
	annotations := map[string]any{api.AnnotationRollout: rolloutName}
	was := o.Live.GetAnnotations()
	if _, held := was[api.AnnotationInProgressing]; !held {
		annotations[api.AnnotationInProgressing] = inProgressing(rolloutName)
	}
	var edits []edit
	for _, f := range o.kind().Fields {
		switch text, remembered := was[f.AnnotationKey()]; {
		case f.Held != nil:
			annotations[f.AnnotationKey()] = o.ownerText(f)
			edits = append(edits, edit{path: f.Path, value: f.Held})
		case f.Text(o.Live) == kinds.OnDelete: // no partition counts by that type
			annotations[f.AnnotationKey()] = o.ownerText(f)
			edits = append(edits, edit{path: f.Path, value: kinds.RollingUpdate})
		case remembered && o.isTakenOver():
			annotations[f.AnnotationKey()] = text
		}
	}
	for key := range was {
		if _, is := annotations[key]; !is && strings.HasPrefix(key, api.AnnotationOriginalPrefix) {
			annotations[key] = nil
		}
	}
	return newPatch(o.Live, o.typeLabel(o.kind().Type), annotations, o.specPatch(edits))
}

// SetPartition has its controller leave so many pods as they are, and replace the others. A share of all is the partition of a hold.
func (o Object) SetPartition(n rollout.Amount) Patch {
	kind := o.kind()
	f, ok := kind.Field(kinds.FieldPartition)
	if !ok {
		return newPatch(o.Live, nil, nil, nil)
	}
	value := any(int64(n.Value))
	switch {
	case n.Percent && n.Value >= 100:
		value = f.Held
	case n.Percent && kind.PercentPartition:
		value = n.String()
	case n.Percent:
		value = int64(n.Of(o.desiredReplicas()))
	}
	edits := []edit{{path: f.Path, value: value}}
	if _, set, _ := unstructured.NestedFieldNoCopy(o.Live.Object, specPath(kind.Pause)...); kind.WritesUnpaused && !set {
		edits = append(edits, edit{path: kind.Pause, value: false})
	}
	return newPatch(o.Live, nil, nil, o.specPatch(edits))
}

// ResumeWorkload gives the held fields back as their owner last set them and takes the mark of the hold off, at once.
func (o Object) ResumeWorkload(id rollout.StableID) Patch {
	annotations, edits := o.restoreHeldFields()
	maps.Copy(annotations, stableIDMark(o.Live, id))
	return newPatch(o.Live, nil, annotations, o.specPatch(edits))
}

// ResumeHeld is Resume of a workload that keeps the field that holds it, as its owner's.
func (o Object) ResumeHeld() Patch {
	annotations, edits := o.restoreHeldFields()
	holds := o.kind().HoldingField().Path
	return newPatch(o.Live, nil, annotations, o.specPatch(slices.DeleteFunc(edits, func(e edit) bool { return slices.Equal(e.path, holds) })))
}

// DisownWorkload takes all marks of ours off the workload and lets go of a hold.
func (o Object) DisownWorkload() Patch {
	annotations, edits := o.restoreHeldFields()
	maps.Copy(annotations, markRemovals(o.Live))
	return newPatch(o.Live, o.typeLabel(nil), annotations, o.specPatch(edits))
}

// typeLabel leaves the label alone where it is its owner's.
func (o Object) typeLabel(value any) map[string]any {
	if o.kind().labelled {
		return nil
	}
	return typeLabels(value)
}

// restoreHeldFields is the end of a hold. A field that its owner never set goes, rather than being set to its default, so that nothing of ours
// stays in managedFields. If it was 0, the API server or a webhook sets it to that default again.
func (o Object) restoreHeldFields() (annotations map[string]any, edits []edit) {
	annotations = map[string]any{}
	was, kind := o.Live.GetAnnotations(), o.kind()
	for key := range was {
		if strings.HasPrefix(key, api.AnnotationOriginalPrefix) {
			annotations[key] = nil
		}
	}
	if _, held := was[api.AnnotationInProgressing]; held {
		annotations[api.AnnotationInProgressing] = nil
	}
	if _, widened := was[api.AnnotationSurgeReplicas]; widened {
		annotations[api.AnnotationSurgeReplicas] = nil
	}
	for _, f := range kind.Fields {
		text, remembered := was[f.AnnotationKey()]
		if !o.isTakenOver() || !remembered && f.Held == nil {
			continue
		}
		value := fieldValue(f, text)
		if f.Name == kinds.FieldReplicas {
			value = int64(o.desiredReplicas())
		}
		if value != nil || f.Held != nil || f.Text(o.Live) != f.Default {
			edits = append(edits, edit{path: f.Path, value: value, keepParents: text == "0"})
		}
		if value == kinds.OnDelete && kind.BareOnDelete {
			edits = append(edits, edit{path: []string{"updateStrategy", "rollingUpdate"}})
		}
	}
	return annotations, edits
}

// edit sets one field of the spec. A nil value removes the field, and each parent that is empty then.
type edit struct {
	path  []string
	value any
	// keepParents leaves empty parents. The API server then sets the default of the field again.
	keepParents bool
}

// specPatch is the merge patch of a spec that makes the edits, and nothing else.
func (o Object) specPatch(edits []edit) map[string]any {
	before, after := map[string]any{}, map[string]any{}
	for _, e := range edits {
		top := e.path[0]
		if was, is, _ := unstructured.NestedFieldCopy(o.Live.Object, "spec", top); is && before[top] == nil {
			before[top] = was
			after[top], _, _ = unstructured.NestedFieldCopy(before, top)
		}
		switch {
		case e.value == nil && e.keepParents:
			unstructured.RemoveNestedField(after, e.path...)
		case e.value == nil:
			removeField(after, e.path)
		default:
			// It fails only where a parent is no object, and such a workload the API server has refused before.
			_ = unstructured.SetNestedField(after, e.value, e.path...)
		}
	}
	return mergePatch(before, after)
}

// removeField takes a field away, and the objects that hold nothing else.
func removeField(from map[string]any, path []string) {
	if _, is, _ := unstructured.NestedFieldNoCopy(from, path...); !is {
		return
	}
	unstructured.RemoveNestedField(from, path...)
	for n := len(path) - 1; n > 0; n-- {
		parent, _, _ := unstructured.NestedMap(from, path[:n]...)
		if len(parent) > 0 {
			return
		}
		unstructured.RemoveNestedField(from, path[:n]...)
	}
}

// mergePatch is the merge patch that leads from one object to another.
func mergePatch(from, to map[string]any) map[string]any {
	d := map[string]any{}
	for key := range from {
		if _, stays := to[key]; !stays {
			d[key] = nil
		}
	}
	for key, value := range to {
		was, is := from[key]
		a, aIs := was.(map[string]any)
		b, bIs := value.(map[string]any)
		switch {
		case aIs && bIs:
			if below := mergePatch(a, b); len(below) > 0 {
				d[key] = below
			}
		case !is || !reflect.DeepEqual(was, value):
			d[key] = value
		}
	}
	return d
}
