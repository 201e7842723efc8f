package hold

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

// heldField is one that holds a workload that is no Deployment, or that the guard keeps.
type heldField struct {
	// name is that of the annotation of its original, path where it is under spec.
	name string
	path []string
	// held is what a hold sets it to; nil where a hold leaves it.
	held any
	// absent is the text of it when it is not set, pattern what an original reads like.
	absent  string
	pattern *regexp.Regexp
	// surgedOnly: it is kept only of a workload that is widened.
	surgedOnly bool
}

// parseOriginal is what an original says. No partition is one of 0: the webhook that would add it may have been asked already.
func (f heldField) parseOriginal(said string) any {
	switch {
	case f.pattern == booleans:
		return said == "true"
	case said == "":
		return int64(0)
	}
	if n, err := strconv.ParseInt(said, 10, 64); err == nil {
		return n
	}
	return said
}

func (f heldField) annotationKey() string { return api.AnnotationOriginalPrefix + f.name }

func (f heldField) objectPath() []string { return append([]string{"spec"}, f.path...) }

// textIn of the field in an object.
func (f heldField) textIn(u *unstructured.Unstructured) string {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, f.objectPath()...)
	if !found || value == nil {
		return f.absent
	}
	return fmt.Sprint(value)
}

// originalIn is an annotation that reads like an original of the field.
func (f heldField) originalIn(annotations map[string]string) (string, bool) {
	value, is := annotations[f.annotationKey()]
	return value, is && f.pattern.MatchString(value)
}

// kindRules is how a kind is held.
type kindRules struct {
	fields []heldField
	// skipsOnDelete: one of the update type OnDelete does not roll by itself and is left alone.
	skipsOnDelete bool
}

var (
	partitions  = regexp.MustCompile(`^([0-9]{1,9}%?)?$`)
	updateTypes = regexp.MustCompile(`^(RollingUpdate|OnDelete)$`)
	booleans    = regexp.MustCompile(`^(true|false)$`)
	numbers     = regexp.MustCompile(`^[0-9]{1,9}$`)
)

// kindRulesOf is nil for a kind that is not held, and for Deployments, which follow rules of their own. Of groups that are not known it is
// what its owner labels as a StatefulSet, before or after the write.
func kindRulesOf(r Request) *kindRules {
	kind := r.New.GroupVersionKind().GroupKind()
	if family := kindRulesOfKind(kind); family != nil || kind.Group == "apps" || kind.Group == "apps.kruise.io" {
		return family
	}
	_, templated, _ := unstructured.NestedMap(r.New.Object, "spec", "template", "spec")
	for _, u := range []*unstructured.Unstructured{r.Old, r.New} {
		if templated && u.GetLabels()[api.LabelWorkloadType] == api.WorkloadTypeStatefulSet {
			return kindRulesOfKind(schema.GroupKind{Group: "apps", Kind: "StatefulSet"})
		}
	}
	return nil
}

func kindRulesOfKind(kind schema.GroupKind) *kindRules {
	updateType := heldField{name: "type", path: []string{"updateStrategy", "type"}, absent: rollingUpdate, pattern: updateTypes}
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps.kruise.io", Kind: "DaemonSet"}:
		return &kindRules{skipsOnDelete: true, fields: []heldField{
			{name: "partition", path: []string{"updateStrategy", "rollingUpdate", "partition"}, held: int64(32767), pattern: partitions}, updateType,
		}}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		updateType.held = "OnDelete"
		return &kindRules{fields: []heldField{updateType}}
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}:
		return &kindRules{fields: []heldField{
			{name: "partition", path: []string{"updateStrategy", "partition"}, held: "100%", pattern: partitions},
			{name: "paused", path: []string{"updateStrategy", "paused"}, held: false, absent: "false", pattern: booleans},
			{name: "replicas", path: []string{"replicas"}, pattern: numbers, surgedOnly: true},
			{name: "minReadySeconds", path: []string{"minReadySeconds"}, absent: "0", pattern: numbers, surgedOnly: true},
			{name: "scaleMaxUnavailable", path: []string{"scaleStrategy", "maxUnavailable"}, pattern: partitions, surgedOnly: true},
		}}
	}
	return nil
}

// rollsByItself says whether the request's workload rolls by itself.
func (f *kindRules) rollsByItself(u *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
	return !f.skipsOnDelete || value != "OnDelete"
}

// holdFields holds and marks a workload that was not in progress.
func (w *write) holdFields() {
	_, marked := w.newAnnotations[api.AnnotationInProgressing]
	for _, f := range w.kindRules.fields {
		if f.held == nil {
			continue
		}
		original := f.textIn(w.new)
		if said, ok := f.originalIn(w.newAnnotations); marked && ok {
			original = said
		}
		w.annotations[f.annotationKey()] = original
		w.setField(f.held, f.objectPath()...)
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
		if f.surgedOnly && !w.isSurged() {
			continue
		}
		was, is := f.textIn(w.old), f.textIn(w.new)
		shall := was
		if holds && f.held != nil {
			shall = fmt.Sprint(f.held)
		}
		ours := f.held != nil && is == fmt.Sprint(f.held)
		if is != was && is != shall && !ours && f.pattern.MatchString(is) && (is != "" || w.kindRules.rollsByItself(w.new)) {
			asked[f.name] = is
		}
		w.restoreField(f, holds)
	}
	for _, f := range w.kindRules.fields {
		kept, is := w.keptOriginal(f, asked)
		if is {
			w.annotations[f.annotationKey()] = kept
		} else {
			delete(w.annotations, f.annotationKey())
		}
		was, before := w.oldAnnotations[f.annotationKey()]
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
		if f.held == nil || !ok || f.textIn(w.new) != fmt.Sprint(f.held) {
			continue
		}
		_, had, _ := unstructured.NestedFieldNoCopy(w.old.Object, f.objectPath()...)
		if said == f.absent && !had {
			unstructured.RemoveNestedField(w.out.Object, f.objectPath()...)
		} else {
			w.setField(f.parseOriginal(said), f.objectPath()...)
		}
	}
}

// keptOriginal is what the field shall be when the release is over. An annotation of the request counts where it reads as one of
// ours: it was decided before in this request. Whoever asks for a partition asks for a rolling update.
func (w *write) keptOriginal(f heldField, asked map[string]string) (string, bool) {
	if f.surgedOnly && !w.isSurged() {
		return "", false
	}
	if value, is := asked[f.name]; is {
		return value, true
	}
	was, before := w.oldAnnotations[f.annotationKey()]
	if _, partition := asked["partition"]; partition && w.kindRules.skipsOnDelete && f.name == "type" && before {
		return f.textIn(w.new), true
	}
	if value, ok := f.originalIn(w.newAnnotations); ok {
		return value, true
	}
	return was, before
}

// restoreField gives a held field the value that it had, or that a hold gives it.
func (w *write) restoreField(f heldField, holds bool) {
	shall, is, _ := unstructured.NestedFieldCopy(w.old.Object, f.objectPath()...)
	if holds && f.held != nil {
		shall, is = f.held, true
	}
	now, there, _ := unstructured.NestedFieldNoCopy(w.new.Object, f.objectPath()...)
	switch {
	case is == there && now == shall:
	case !is:
		unstructured.RemoveNestedField(w.out.Object, f.objectPath()...)
		w.removeEmptyParent(f)
	default:
		w.restoreParents(f)
		w.setField(shall, f.objectPath()...)
	}
}

// restoreParents puts back the objects that a field lies in, where the request has none.
func (w *write) restoreParents(f heldField) {
	for n := 2; n <= len(f.path); n++ {
		at := f.objectPath()[:n]
		if _, found, _ := unstructured.NestedFieldNoCopy(w.out.Object, at...); found {
			continue
		}
		if old, was, _ := unstructured.NestedFieldCopy(w.old.Object, at...); was {
			w.setField(old, at...)
		}
	}
}

// removeEmptyParent takes away the object that a field of a widened workload lay in, where it held nothing else and was not there before.
func (w *write) removeEmptyParent(f heldField) {
	if !f.surgedOnly || len(f.path) < 2 {
		return
	}
	_, was, _ := unstructured.NestedFieldNoCopy(w.old.Object, "spec", f.path[0])
	if now, is, _ := unstructured.NestedMap(w.out.Object, "spec", f.path[0]); is && len(now) == 0 && !was {
		unstructured.RemoveNestedField(w.out.Object, "spec", f.path[0])
	}
}

// heldFields are the texts of all fields.
func (w *write) heldFields(u *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, f := range w.kindRules.fields {
		all[f.name] = f.textIn(u)
	}
	return all
}

// isSurged says that an executor has taken over the replicas as well, and what else would take pods away or bring none.
func (w *write) isSurged() bool {
	_, is := w.oldAnnotations[originalReplicas]
	return w.inProgress && is && w.kindRules.canSurge()
}

func (f *kindRules) canSurge() bool {
	return slices.ContainsFunc(f.fields, func(f heldField) bool { return f.surgedOnly })
}

// specWithoutHeld is a spec without the held fields; it is a copy already, but not below.
func (w *write) specWithoutHeld(spec map[string]any) map[string]any {
	u := (&unstructured.Unstructured{Object: map[string]any{"spec": spec}}).DeepCopy()
	for _, field := range w.kindRules.fields {
		if field.surgedOnly && !w.isSurged() {
			continue
		}
		unstructured.RemoveNestedField(u.Object, field.objectPath()...)
		if len(field.path) > 1 && field.surgedOnly { // what held nothing else says nothing
			if rest, _, _ := unstructured.NestedMap(u.Object, "spec", field.path[0]); len(rest) == 0 {
				unstructured.RemoveNestedField(u.Object, "spec", field.path[0])
			}
		}
	}
	spec, _ = u.Object["spec"].(map[string]any)
	return spec
}
