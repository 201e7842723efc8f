package hold

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// heldField is one that holds a workload that is no Deployment, or that the guard keeps.
type heldField struct{ kinds.Field }

// parseOriginal is what an original says. No partition is one of 0: the webhook that would add it may have been asked already.
func (f heldField) parseOriginal(said string) any {
	switch {
	case f.Form == kinds.Boolean:
		return said == "true"
	case said == "":
		return int64(0)
	}
	if n, err := strconv.ParseInt(said, 10, 64); err == nil {
		return n
	}
	return said
}

// matches says whether a text reads like an original of the field.
func (f heldField) matches(text string) bool { return patterns[f.Form].MatchString(text) }

// originalIn is an annotation that reads like an original of the field.
func (f heldField) originalIn(annotations map[string]string) (string, bool) {
	value, is := annotations[f.AnnotationKey()]
	return value, is && f.matches(value)
}

// kindRules is how a kind is held.
type kindRules struct {
	fields []heldField
	// skipsOnDelete: one of the update type OnDelete does not roll by itself and is left alone.
	skipsOnDelete bool
}

// patterns has the compiled pattern of each form of field.
var patterns = compilePatterns()

func compilePatterns() map[kinds.Form]*regexp.Regexp {
	all := map[kinds.Form]*regexp.Regexp{}
	for _, form := range kinds.Forms() {
		all[form] = regexp.MustCompile(form.Pattern())
	}
	return all
}

// kindRulesOf is nil for a kind that is not held, and for Deployments, which follow rules of their own. Of groups that are not known it is
// what its owner labels as a StatefulSet, before or after the write.
func kindRulesOf(r Request) *kindRules {
	if row, is := kinds.Find(r.New.GroupVersionKind().GroupKind()); is {
		return kindRulesOfRow(row)
	}
	if !kinds.HasShape(r.New) {
		return nil
	}
	shape := kinds.Shape()
	for _, u := range []*unstructured.Unstructured{r.Old, r.New} {
		if u.GetLabels()[api.LabelWorkloadType] == shape.Type {
			return kindRulesOfRow(shape)
		}
	}
	return nil
}

func kindRulesOfRow(row kinds.Kind) *kindRules {
	rules := &kindRules{skipsOnDelete: row.LeavesOnDelete()}
	for _, f := range row.Fields {
		rules.fields = append(rules.fields, heldField{f})
	}
	return rules
}

// rollsByItself says whether the request's workload rolls by itself.
func (f *kindRules) rollsByItself(u *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
	return !f.skipsOnDelete || value != kinds.OnDelete
}

// holdFields holds and marks a workload that was not in progress.
func (w *write) holdFields() {
	_, marked := w.newAnnotations[api.AnnotationInProgressing]
	for _, f := range w.kindRules.fields {
		if f.Held == nil {
			continue
		}
		original := f.RequestText(w.new)
		if said, ok := f.originalIn(w.newAnnotations); marked && ok {
			original = said
		}
		w.annotations[f.AnnotationKey()] = original
		w.setField(f.Held, f.ObjectPath()...)
	}
	w.annotations[api.AnnotationInProgressing] = inProgressing(w.rolloutName())
}

// guardFields keeps the held fields of a workload in progress, and remembers what the user wants for them. silent says that this is
// nothing new, so that a request that drops our marks leaves no trace.
func (w *write) guardFields() (silent bool) {
	if !w.inProgress {
		w.undoHold()
		return equality.Semantic.DeepEqual(w.heldFields(w.old), w.heldFields(w.out))
	}
	holds := w.isRelease && (w.hasPods() || w.isSurged())
	silent = !holds
	asked := map[string]string{}
	for _, f := range w.kindRules.fields {
		if f.SurgeOnly && !w.isSurged() {
			continue
		}
		was, is := f.RequestText(w.old), f.RequestText(w.new)
		shall := was
		if holds && f.Held != nil {
			shall = fmt.Sprint(f.Held)
		}
		ours := f.Held != nil && is == fmt.Sprint(f.Held)
		if is != was && is != shall && !ours && f.matches(is) && (is != "" || w.kindRules.rollsByItself(w.new)) {
			asked[f.Name] = is
		}
		w.restoreField(f, holds)
	}
	for _, f := range w.kindRules.fields {
		kept, is := w.keptOriginal(f, asked)
		if is {
			w.annotations[f.AnnotationKey()] = kept
		} else {
			delete(w.annotations, f.AnnotationKey())
		}
		was, before := w.oldAnnotations[f.AnnotationKey()]
		silent = silent && kept == was && is == before
	}
	return silent
}

// undoHold undoes a hold of this very request: it was taken for a release before a webhook added what its template lacked.
func (w *write) undoHold() {
	if _, marked := w.newAnnotations[api.AnnotationInProgressing]; !marked || w.begins {
		return
	}
	for _, f := range w.kindRules.fields {
		said, ok := f.originalIn(w.newAnnotations)
		if f.Held == nil || !ok || f.RequestText(w.new) != fmt.Sprint(f.Held) {
			continue
		}
		_, had, _ := unstructured.NestedFieldNoCopy(w.old.Object, f.ObjectPath()...)
		if said == f.Unset() && !had {
			unstructured.RemoveNestedField(w.out.Object, f.ObjectPath()...)
		} else {
			w.setField(f.parseOriginal(said), f.ObjectPath()...)
		}
	}
}

// keptOriginal returns the value that the field gets when the release ends. An annotation of the request counts if it has the form of one of ours:
// an earlier decision in this request wrote it. A request for a partition is a request for a rolling update.
func (w *write) keptOriginal(f heldField, asked map[string]string) (string, bool) {
	if f.SurgeOnly && !w.isSurged() {
		return "", false
	}
	if value, is := asked[f.Name]; is {
		return value, true
	}
	was, before := w.oldAnnotations[f.AnnotationKey()]
	if _, partition := asked[kinds.FieldPartition]; partition && w.kindRules.skipsOnDelete && f.Name == kinds.FieldType && before {
		return f.RequestText(w.new), true
	}
	if value, ok := f.originalIn(w.newAnnotations); ok {
		return value, true
	}
	return was, before
}

// restoreField gives a held field the value that it had, or that a hold gives it.
func (w *write) restoreField(f heldField, holds bool) {
	shall, is, _ := unstructured.NestedFieldCopy(w.old.Object, f.ObjectPath()...)
	if holds && f.Held != nil {
		shall, is = f.Held, true
	}
	now, there, _ := unstructured.NestedFieldNoCopy(w.new.Object, f.ObjectPath()...)
	switch {
	case is == there && now == shall:
	case !is:
		unstructured.RemoveNestedField(w.out.Object, f.ObjectPath()...)
		w.removeEmptyParent(f)
	default:
		w.restoreParents(f)
		w.setField(shall, f.ObjectPath()...)
	}
}

// restoreParents puts back the objects that a field lies in, where the request has none.
func (w *write) restoreParents(f heldField) {
	for n := 2; n <= len(f.Path); n++ {
		at := f.ObjectPath()[:n]
		if _, found, _ := unstructured.NestedFieldNoCopy(w.out.Object, at...); found {
			continue
		}
		if old, was, _ := unstructured.NestedFieldCopy(w.old.Object, at...); was {
			w.setField(old, at...)
		}
	}
}

// removeEmptyParent removes the parent of a field of a surged workload, if the parent has no other field and was not there before.
func (w *write) removeEmptyParent(f heldField) {
	if !f.SurgeOnly || len(f.Path) < 2 {
		return
	}
	_, was, _ := unstructured.NestedFieldNoCopy(w.old.Object, "spec", f.Path[0])
	if now, is, _ := unstructured.NestedMap(w.out.Object, "spec", f.Path[0]); is && len(now) == 0 && !was {
		unstructured.RemoveNestedField(w.out.Object, "spec", f.Path[0])
	}
}

// heldFields are the texts of all fields.
func (w *write) heldFields(u *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, f := range w.kindRules.fields {
		all[f.Name] = f.RequestText(u)
	}
	return all
}

// isSurged says that an executor has taken over the replicas as well, and what else would take pods away or bring none.
func (w *write) isSurged() bool {
	_, is := w.oldAnnotations[originalReplicas]
	return w.inProgress && is && w.kindRules.canSurge()
}

func (f *kindRules) canSurge() bool {
	return slices.ContainsFunc(f.fields, func(f heldField) bool { return f.SurgeOnly })
}

// specWithoutHeld is a spec without the held fields; it is a copy already, but not below.
func (w *write) specWithoutHeld(spec map[string]any) map[string]any {
	u := (&unstructured.Unstructured{Object: map[string]any{"spec": spec}}).DeepCopy()
	for _, field := range w.kindRules.fields {
		if field.SurgeOnly && !w.isSurged() {
			continue
		}
		unstructured.RemoveNestedField(u.Object, field.ObjectPath()...)
		if len(field.Path) > 1 && field.SurgeOnly { // the field holds nothing by itself
			if rest, _, _ := unstructured.NestedMap(u.Object, "spec", field.Path[0]); len(rest) == 0 {
				unstructured.RemoveNestedField(u.Object, "spec", field.Path[0])
			}
		}
	}
	spec, _ = u.Object["spec"].(map[string]any)
	return spec
}
