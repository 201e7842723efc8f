package traffic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// This file is about objects that a release makes for a gateway object: those that its script makes, such as the canary Ingress of an Ingress, and copies of
// policies. They belong to one release on one object: the label [api.LabelRolloutUID] and the annotation [api.AnnotationReleases] say whose they are, and the
// gateway object owns them. What somebody else adds to one, such as an annotation of its controller, stays.

// Beside is what must be written for a step beside the gateway object, in this order: First goes before anything else is written, Put is
// written before the gateway object, and Last goes after it. What Put has and the cluster has too carries its resourceVersion. What the
// gateway object names is among Put only if it is there already: [Plan.Prepared] has the rest.
type Beside struct {
	First, Put, Last []*unstructured.Unstructured
}

// madeRecord is what the writer of a made object leaves on it.
type madeRecord struct {
	// Desired is the digest of what was meant.
	Desired string `json:"desired"`
	// Labels and Annotations are those that are ours.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// Named: the gateway object refers to it. Since is when it was asked for then, by the clock of who made it.
	Named bool              `json:"named,omitempty"`
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Copied: it is a copy of a policy.
	Copied bool `json:"copied,omitempty"`
}

func recordOf(obj *unstructured.Unstructured) (r madeRecord) {
	if json.Unmarshal([]byte(obj.GetAnnotations()[api.AnnotationRendered]), &r) != nil {
		return madeRecord{}
	}
	return r
}

// madeFor are those of some objects that a release made beside the gateway object. What a Rollout of the same name left behind when it
// was removed by force counts as well.
func madeFor(live *unstructured.Unstructured, rel Release, others []*unstructured.Unstructured) (made []*unstructured.Unstructured) {
	for _, o := range others {
		_, listed := parseEntries(o.GetAnnotations()[api.AnnotationReleases]).inherited(rel)[rel.UID]
		if isBeside(o, live) && (listed || o.GetLabels()[api.LabelRolloutUID] == rel.UID) {
			made = append(made, o)
		}
	}
	return made
}

// isBeside reports whether an object was made beside a gateway object, by whichever release.
func isBeside(o, live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == live.GetUID() })
}

// besides are the objects that a rendering needs for the gateway object: copies of policies, and objects that the script makes. A gateway must know a copy before
// it sends requests to the canary. So a copy is treated as an object that the gateway object names.
func (p *Plan) besides(folded shape, copies []map[string]any, e entry) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for i, object := range slices.Concat(copies, folded.create) {
		desired, err := p.beside(object, e)
		if err != nil {
			return nil, err
		}
		if i < len(copies) {
			desired = toBeCopied(desired)
		} else if refersTo(folded.Spec, p.original.Spec, desired) {
			if e.Kind != "" {
				return nil, fmt.Errorf("it would lead to %s %s, which is made for it, and only a Rollout waits until a gateway knows both; let a Rollout route by it", desired.GetKind(), desired.GetName())
			}
			desired = toBeNamed(desired)
		}
		if slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return sameObject(o, desired) }) || sameObject(desired, p.live) {
			return nil, fmt.Errorf("the script makes %s %s twice; mend the script", desired.GetKind(), desired.GetName())
		}
		if there := find(p.others, desired); there != nil && find(p.made, desired) == nil && find(p.leaving, desired) == nil {
			return nil, fmt.Errorf("%s %s exists, and this release did not make it; rename or delete it", desired.GetKind(), desired.GetName())
		}
		all = append(all, desired)
	}
	return all, nil
}

// beside is one object that a script makes, with our records on it.
func (p *Plan) beside(object map[string]any, e entry) (*unstructured.Unstructured, error) {
	given := &unstructured.Unstructured{Object: plain(object).(map[string]any)}
	if ns := given.GetNamespace(); ns != "" && ns != p.live.GetNamespace() {
		return nil, fmt.Errorf("the script makes %s %s in namespace %s; it may only make objects in that of %s %s", given.GetKind(), given.GetName(), ns, p.live.GetKind(), p.live.GetName())
	}
	u := &unstructured.Unstructured{Object: maps.Clone(given.Object)}
	delete(u.Object, "status")
	delete(u.Object, "metadata")
	u.SetName(given.GetName())
	u.SetNamespace(p.live.GetNamespace())
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: p.live.GetAPIVersion(), Kind: p.live.GetKind(), Name: p.live.GetName(), UID: p.live.GetUID()}})
	labels, annotations := orEmpty(given.GetLabels()), orEmpty(given.GetAnnotations())
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	record := madeRecord{Desired: digestOf(u.Object), Labels: keys(labels), Annotations: keys(annotations)}
	labels[api.LabelRolloutUID] = e.UID
	annotations[api.AnnotationReleases] = jsonOf(entries{e.UID: e})
	annotations[api.AnnotationRendered] = jsonOf(record)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	return u, nil
}

// isAsMade reports whether a live object is what we made it, whatever others have added.
func isAsMade(live, desired *unstructured.Unstructured) bool {
	is, want := recordOf(live), recordOf(desired)
	if is.Desired != want.Desired || want.Named && !is.Named {
		return false
	}
	for key, value := range desired.Object {
		if key != "metadata" && !covers(live.Object[key], value) {
			return false
		}
	}
	for _, key := range want.Labels {
		if live.GetLabels()[key] != desired.GetLabels()[key] {
			return false
		}
	}
	for _, key := range want.Annotations {
		is, should := live.GetAnnotations()[key], desired.GetAnnotations()[key]
		if r, ranged := parseRange(should); ranged && !r.has(is) || !ranged && is != should {
			return false
		}
	}
	return true
}

// over is desired as it is written over a live object: labels and annotations of others stay.
func over(live, desired *unstructured.Unstructured) *unstructured.Unstructured {
	next := live.DeepCopy()
	for key := range next.Object {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
		default:
			delete(next.Object, key)
		}
	}
	for key, value := range desired.DeepCopy().Object {
		if key != "metadata" {
			next.Object[key] = value
		}
	}
	was := recordOf(live)
	next.SetLabels(replaced(live.GetLabels(), was.Labels, desired.GetLabels()))
	next.SetAnnotations(replaced(live.GetAnnotations(), was.Annotations, desired.GetAnnotations()))
	next.SetOwnerReferences(desired.GetOwnerReferences())
	next.SetManagedFields(nil)
	if was.Named {
		record := recordOf(next)
		record.Named, record.Since, record.Copied = true, was.Since, was.Copied
		return recorded(next, record)
	}
	return next
}

func replaced(live map[string]string, was []string, with map[string]string) map[string]string {
	next := orEmpty(maps.Clone(live))
	for _, key := range was {
		delete(next, key)
	}
	maps.Copy(next, with)
	return next
}

// toMake is what must be written beside the gateway object for a rendering.
func (p *Plan) toMake(r rendering) (b Beside) {
	for _, ref := range r.delete {
		if o := p.madeAs(ref); o != nil {
			b.First = append(b.First, o)
		}
	}
	for i, desired := range r.beside {
		live := find(p.made, desired)
		switch {
		case live == nil && recordOf(desired).Named:
		case live == nil || slices.Contains(b.First, live):
			b.Put = append(b.Put, desired)
		case !p.asMade(r.beside, i):
			put := over(live, desired)
			if key, numbers := Unnumbered(desired); key != "" && numbers.has(live.GetAnnotations()[key]) && p.inOrder(r.beside, i) {
				put = Numbered(put, key, numberOn(live, key))
			}
			b.Put = append(b.Put, put)
		}
	}
	for _, o := range p.unwanted(r) {
		if !slices.Contains(b.First, o) {
			b.Last = append(b.Last, o)
		}
	}
	return b
}

// Made are the objects that the release made beside the gateway object.
func (p *Plan) Made() []*unstructured.Unstructured { return p.made }

// Unnamed are those of them that the gateway object never named. They go at once when that is restored.
func (p *Plan) Unnamed() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.made), func(o *unstructured.Unstructured) bool { return recordOf(o).Named })
}

func (p *Plan) madeAs(ref script.Reference) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(ref.APIVersion)
	u.SetKind(ref.Kind)
	u.SetName(ref.Name)
	return find(p.made, u)
}

// asMade reports whether the object that is wanted at a place is there as it should be.
func (p *Plan) asMade(wanted []*unstructured.Unstructured, at int) bool {
	live := find(p.made, wanted[at])
	return live != nil && isAsMade(live, wanted[at]) && p.inOrder(wanted, at)
}

// unwanted are the objects that the executor deletes at once, because the rendering does not need them: objects that the gateway object never named, and copies
// whose policies are gone.
func (p *Plan) unwanted(r rendering) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.made), func(o *unstructured.Unstructured) bool {
		record := recordOf(o)
		return record.Named && !(record.Copied && r.needsCopies) || find(r.beside, o) != nil
	})
}

// allMade reports whether everything beside the object is there as it should be, and nothing else but what it named before.
func (p *Plan) allMade(r rendering) bool {
	for i := range r.beside {
		if !p.asMade(r.beside, i) {
			return false
		}
	}
	return len(p.unwanted(r)) == 0
}

// changedBeside reports whether somebody else changed what we made.
func (p *Plan) changedBeside(wanted []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(wanted, func(desired *unstructured.Unstructured) bool {
		live := find(p.made, desired)
		return live != nil && recordOf(live).Desired == recordOf(desired).Desired && !isAsMade(live, desired)
	})
}

// inOrder reports whether the number of an object is smaller than that of the next one, where both have one.
func (p *Plan) inOrder(wanted []*unstructured.Unstructured, at int) bool {
	if at+1 >= len(wanted) {
		return true
	}
	next := find(p.made, wanted[at+1])
	key, _ := Unnumbered(wanted[at])
	if next == nil || key == "" {
		return key == ""
	}
	return numberOn(find(p.made, wanted[at]), key) < numberOn(next, key)
}

// Range is the numbers that an annotation may have: each at most once among all objects of a class. Whoever writes the object chooses one.
type Range struct{ Min, Max int }

const rangeFormat = "a number from %d to %d"

func (r Range) String() string { return fmt.Sprintf(rangeFormat, r.Min, r.Max) }

func parseRange(text string) (r Range, ok bool) {
	n, err := fmt.Sscanf(text, rangeFormat, &r.Min, &r.Max)
	return r, err == nil && n == 2
}

func (r Range) has(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && r.Min <= n && n <= r.Max
}

// Unnumbered is the annotation of an object that needs a number, and the range of it; "" when there is none.
func Unnumbered(obj *unstructured.Unstructured) (annotation string, r Range) {
	for key, value := range obj.GetAnnotations() {
		if r, ok := parseRange(value); ok {
			return key, r
		}
	}
	return "", Range{}
}

// Numbered is the object with its number.
func Numbered(obj *unstructured.Unstructured, annotation string, number int) *unstructured.Unstructured {
	next := obj.DeepCopy()
	annotations := next.GetAnnotations()
	annotations[annotation] = strconv.Itoa(number)
	next.SetAnnotations(annotations)
	return next
}

func numberOn(obj *unstructured.Unstructured, annotation string) int {
	n, _ := strconv.Atoi(obj.GetAnnotations()[annotation])
	return n
}

// rangeBefore are the numbers that come before that of an object.
func rangeBefore(orders script.Orders, annotations map[string]string, object string) (Range, error) {
	own := orders.Default
	if text, ok := annotations[orders.Annotation]; ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return Range{}, fmt.Errorf("the annotation %s of %s is %q, and must be a whole number", orders.Annotation, object, text)
		}
		own = n
	}
	if own <= orders.Min {
		return Range{}, fmt.Errorf("%s has the order %d, before which there is none for its canary; set its annotation %s to a higher number", object, own, orders.Annotation)
	}
	return Range{orders.Min, own - 1}, nil
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() && a.GetName() == b.GetName()
}

func find(all []*unstructured.Unstructured, like *unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range all {
		if sameObject(o, like) {
			return o
		}
	}
	return nil
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
