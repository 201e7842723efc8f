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

// field is one that holds a workload that is no Deployment, or that the guard keeps.
type field struct {
	// name is that of the annotation of its original, path where it is under spec.
	name string
	path []string
	// held is what a hold sets it to; nil where a hold leaves it.
	held any
	// absent is the text of it when it is not set, pattern what an original reads like.
	absent  string
	pattern *regexp.Regexp
	// wide: it is kept only of a workload that is widened.
	wide bool
}

// value is what an original says. No partition is one of 0: the webhook that would add it may have been asked already.
func (f field) value(said string) any {
	switch {
	case f.pattern == switches:
		return said == "true"
	case said == "":
		return int64(0)
	}
	if n, err := strconv.ParseInt(said, 10, 64); err == nil {
		return n
	}
	return said
}

func (f field) key() string { return api.AnnotationOriginalPrefix + f.name }

func (f field) at() []string { return append([]string{"spec"}, f.path...) }

// text of the field in an object.
func (f field) text(u *unstructured.Unstructured) string {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, f.at()...)
	if !found || value == nil {
		return f.absent
	}
	return fmt.Sprint(value)
}

// said is an annotation that reads like an original of the field.
func (f field) said(annotations map[string]string) (string, bool) {
	value, is := annotations[f.key()]
	return value, is && f.pattern.MatchString(value)
}

// family is how a kind is held.
type family struct {
	fields []field
	// typed: one of the update type OnDelete does not roll by itself and is left alone.
	typed bool
}

var (
	partitions  = regexp.MustCompile(`^([0-9]{1,9}%?)?$`)
	updateTypes = regexp.MustCompile(`^(RollingUpdate|OnDelete)$`)
	switches    = regexp.MustCompile(`^(true|false)$`)
	numbers     = regexp.MustCompile(`^[0-9]{1,9}$`)
)

// familyOf is nil for a kind that is not held, and for Deployments, which follow rules of their own. Of groups that are not known it is
// what its owner labels as a StatefulSet, before or after the write.
func familyOf(r Request) *family {
	kind := r.New.GroupVersionKind().GroupKind()
	if family := familyOfKind(kind); family != nil || kind.Group == "apps" || kind.Group == "apps.kruise.io" {
		return family
	}
	_, templated, _ := unstructured.NestedMap(r.New.Object, "spec", "template", "spec")
	for _, u := range []*unstructured.Unstructured{r.Old, r.New} {
		if templated && u.GetLabels()[api.LabelWorkloadType] == api.WorkloadTypeStatefulSet {
			return familyOfKind(schema.GroupKind{Group: "apps", Kind: "StatefulSet"})
		}
	}
	return nil
}

func familyOfKind(kind schema.GroupKind) *family {
	updateType := field{name: "type", path: []string{"updateStrategy", "type"}, absent: rollingUpdate, pattern: updateTypes}
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps.kruise.io", Kind: "DaemonSet"}:
		return &family{typed: true, fields: []field{
			{name: "partition", path: []string{"updateStrategy", "rollingUpdate", "partition"}, held: int64(32767), pattern: partitions}, updateType,
		}}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		updateType.held = "OnDelete"
		return &family{fields: []field{updateType}}
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}:
		return &family{fields: []field{
			{name: "partition", path: []string{"updateStrategy", "partition"}, held: "100%", pattern: partitions},
			{name: "paused", path: []string{"updateStrategy", "paused"}, held: false, absent: "false", pattern: switches},
			{name: "replicas", path: []string{"replicas"}, pattern: numbers, wide: true},
			{name: "minReadySeconds", path: []string{"minReadySeconds"}, absent: "0", pattern: numbers, wide: true},
			{name: "scaleMaxUnavailable", path: []string{"scaleStrategy", "maxUnavailable"}, pattern: partitions, wide: true},
		}}
	}
	return nil
}

// rolls says whether the request's workload rolls by itself.
func (f *family) rolls(u *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type")
	return !f.typed || value != "OnDelete"
}

// holdFields holds and marks a workload that was not in progress.
func (w *write) holdFields() {
	_, marked := w.newAnnotations[api.AnnotationInProgressing]
	for _, f := range w.family.fields {
		if f.held == nil {
			continue
		}
		original := f.text(w.new)
		if said, ok := f.said(w.newAnnotations); marked && ok {
			original = said
		}
		w.annotations[f.key()] = original
		w.set(f.held, f.at()...)
	}
	w.annotations[api.AnnotationInProgressing] = inProgressing(w.rollout())
}

// guardFields keeps the held fields of a workload in progress, and remembers what the user wants for them. silent says that this is
// nothing new, so that a request that drops our marks leaves no trace.
func (w *write) guardFields() (silent bool) {
	if !w.inProgress {
		w.letGo()
		return equality.Semantic.DeepEqual(w.heldFields(w.old), w.heldFields(w.out))
	}
	holds := w.isRelease && (w.hasPods() || w.widened())
	silent = !holds
	asked := map[string]string{}
	for _, f := range w.family.fields {
		if f.wide && !w.widened() {
			continue
		}
		was, is := f.text(w.old), f.text(w.new)
		shall := was
		if holds && f.held != nil {
			shall = fmt.Sprint(f.held)
		}
		ours := f.held != nil && is == fmt.Sprint(f.held)
		if is != was && is != shall && !ours && f.pattern.MatchString(is) && (is != "" || w.family.rolls(w.new)) {
			asked[f.name] = is
		}
		w.putBack(f, holds)
	}
	for _, f := range w.family.fields {
		kept, is := w.keptOriginal(f, asked)
		if is {
			w.annotations[f.key()] = kept
		} else {
			delete(w.annotations, f.key())
		}
		was, before := w.oldAnnotations[f.key()]
		silent = silent && kept == was && is == before
	}
	return silent
}

// letGo undoes a hold of this very request: it was taken for a release before a webhook added what its template lacked.
func (w *write) letGo() {
	if _, marked := w.newAnnotations[api.AnnotationInProgressing]; !marked || w.begins {
		return
	}
	for _, f := range w.family.fields {
		said, ok := f.said(w.newAnnotations)
		if f.held == nil || !ok || f.text(w.new) != fmt.Sprint(f.held) {
			continue
		}
		_, had, _ := unstructured.NestedFieldNoCopy(w.old.Object, f.at()...)
		if said == f.absent && !had {
			unstructured.RemoveNestedField(w.out.Object, f.at()...)
		} else {
			w.set(f.value(said), f.at()...)
		}
	}
}

// keptOriginal is what the field shall be when the release is over. An annotation of the request counts where it reads as one of
// ours: it was decided before in this request. Whoever asks for a partition asks for a rolling update.
func (w *write) keptOriginal(f field, asked map[string]string) (string, bool) {
	if f.wide && !w.widened() {
		return "", false
	}
	if value, is := asked[f.name]; is {
		return value, true
	}
	was, before := w.oldAnnotations[f.key()]
	if _, partition := asked["partition"]; partition && w.family.typed && f.name == "type" && before {
		return f.text(w.new), true
	}
	if value, ok := f.said(w.newAnnotations); ok {
		return value, true
	}
	return was, before
}

// putBack gives a held field the value that it had, or that a hold gives it.
func (w *write) putBack(f field, holds bool) {
	shall, is, _ := unstructured.NestedFieldCopy(w.old.Object, f.at()...)
	if holds && f.held != nil {
		shall, is = f.held, true
	}
	now, there, _ := unstructured.NestedFieldNoCopy(w.new.Object, f.at()...)
	switch {
	case is == there && now == shall:
	case !is:
		unstructured.RemoveNestedField(w.out.Object, f.at()...)
		w.emptied(f)
	default:
		w.parents(f)
		w.set(shall, f.at()...)
	}
}

// parents puts back the objects that a field lies in, where the request has none.
func (w *write) parents(f field) {
	for n := 2; n <= len(f.path); n++ {
		at := f.at()[:n]
		if _, found, _ := unstructured.NestedFieldNoCopy(w.out.Object, at...); found {
			continue
		}
		if old, was, _ := unstructured.NestedFieldCopy(w.old.Object, at...); was {
			w.set(old, at...)
		}
	}
}

// emptied takes away the object that a field of a widened workload lay in, where it held nothing else and was not there before.
func (w *write) emptied(f field) {
	if !f.wide || len(f.path) < 2 {
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
	for _, f := range w.family.fields {
		all[f.name] = f.text(u)
	}
	return all
}

// widened says that an executor has taken over the replicas as well, and what else would take pods away or bring none.
func (w *write) widened() bool {
	_, is := w.oldAnnotations[originalReplicas]
	return w.inProgress && is && w.family.widens()
}

func (f *family) widens() bool {
	return slices.ContainsFunc(f.fields, func(f field) bool { return f.wide })
}

// free is a spec without the held fields; it is a copy already, but not below.
func (w *write) free(spec map[string]any) map[string]any {
	u := (&unstructured.Unstructured{Object: map[string]any{"spec": spec}}).DeepCopy()
	for _, field := range w.family.fields {
		if field.wide && !w.widened() {
			continue
		}
		unstructured.RemoveNestedField(u.Object, field.at()...)
		if len(field.path) > 1 && field.wide { // what held nothing else says nothing
			if rest, _, _ := unstructured.NestedMap(u.Object, "spec", field.path[0]); len(rest) == 0 {
				unstructured.RemoveNestedField(u.Object, "spec", field.path[0])
			}
		}
	}
	spec, _ = u.Object["spec"].(map[string]any)
	return spec
}
