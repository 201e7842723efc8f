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

// Children is what must be written for a step beside the gateway object, in this order: DeleteFirst goes before anything else is written, Apply is
// written before the gateway object, and DeleteLast goes after it. What Apply has and the cluster has too carries its resourceVersion. What the
// gateway object names is among Apply only if it is there already: [Plan.ChildrenToPrepare] has the rest.
type Children struct {
	DeleteFirst, Apply, DeleteLast []*unstructured.Unstructured
}

// childRecord is what the writer of a made object leaves on it.
type childRecord struct {
	// Desired is the digest of what was meant.
	Desired string `json:"desired"`
	// Labels and Annotations are those that are ours.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// Referenced: the gateway object refers to it. Since is when it was asked for then, by the clock of who made it.
	Referenced bool              `json:"named,omitempty"`
	Since      *metav1.MicroTime `json:"since,omitempty"`
	// Copied: it is a copy of a policy.
	Copied bool `json:"copied,omitempty"`
}

func childRecordOf(obj *unstructured.Unstructured) (r childRecord) {
	if json.Unmarshal([]byte(obj.GetAnnotations()[api.AnnotationRendered]), &r) != nil {
		return childRecord{}
	}
	return r
}

// childrenOf are those of some objects that a release made beside the gateway object. What a Rollout of the same name left behind when it
// was removed by force counts as well.
func childrenOf(live *unstructured.Unstructured, rel Release, others []*unstructured.Unstructured) (made []*unstructured.Unstructured) {
	for _, o := range others {
		_, listed := parseEntries(o.GetAnnotations()[api.AnnotationReleases]).inheritOrphan(rel)[rel.UID]
		if isChildOf(o, live) && (listed || o.GetLabels()[api.LabelRolloutUID] == rel.UID) {
			made = append(made, o)
		}
	}
	return made
}

// isChildOf reports whether an object was made beside a gateway object, by whichever release.
func isChildOf(o, live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == live.GetUID() })
}

// desiredChildren are the objects that a rendering needs for the gateway object: copies of policies, and objects that the script makes. A gateway must know a copy before
// it sends requests to the canary. So a copy is treated as an object that the gateway object names.
func (p *Plan) desiredChildren(folded shape, copies []map[string]any, e entry) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for i, object := range slices.Concat(copies, folded.create) {
		desired, err := p.desiredChild(object, e)
		if err != nil {
			return nil, err
		}
		if i < len(copies) {
			desired = markCopied(desired)
		} else if addsReference(folded.Spec, p.original.Spec, desired) {
			if e.Kind != "" {
				return nil, fmt.Errorf("it would lead to %s %s, which is made for it, and only a Rollout waits until a gateway knows both; let a Rollout route by it", desired.GetKind(), desired.GetName())
			}
			desired = markReferenced(desired)
		}
		if slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return sameObject(o, desired) }) || sameObject(desired, p.live) {
			return nil, fmt.Errorf("the script makes %s %s twice; mend the script", desired.GetKind(), desired.GetName())
		}
		if there := findObject(p.others, desired); there != nil && findObject(p.children, desired) == nil && findObject(p.deletingChildren, desired) == nil {
			return nil, fmt.Errorf("%s %s exists, and this release did not make it; rename or delete it", desired.GetKind(), desired.GetName())
		}
		all = append(all, desired)
	}
	return all, nil
}

// desiredChild is one object that a script makes, with our records on it.
func (p *Plan) desiredChild(object map[string]any, e entry) (*unstructured.Unstructured, error) {
	given := &unstructured.Unstructured{Object: toUnstructured(object).(map[string]any)}
	if ns := given.GetNamespace(); ns != "" && ns != p.live.GetNamespace() {
		return nil, fmt.Errorf("the script makes %s %s in namespace %s; it may only create objects in the namespace of %s %s", given.GetKind(), given.GetName(), ns, p.live.GetKind(), p.live.GetName())
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
	record := childRecord{Desired: digestOf(u.Object), Labels: sortedKeys(labels), Annotations: sortedKeys(annotations)}
	labels[api.LabelRolloutUID] = e.UID
	annotations[api.AnnotationReleases] = jsonOf(entries{e.UID: e})
	annotations[api.AnnotationRendered] = jsonOf(record)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	return u, nil
}

// matchesDesired reports whether a live object is what we made it, whatever others have added.
func matchesDesired(live, desired *unstructured.Unstructured) bool {
	is, want := childRecordOf(live), childRecordOf(desired)
	if is.Desired != want.Desired || want.Referenced && !is.Referenced {
		return false
	}
	for key, value := range desired.Object {
		if key != "metadata" && !coversRendered(live.Object[key], value) {
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
		if r, ranged := parseRange(should); ranged && !r.containsNumber(is) || !ranged && is != should {
			return false
		}
	}
	return true
}

// mergeChild is desired as it is written over a live object: labels and annotations of others stay.
func mergeChild(live, desired *unstructured.Unstructured) *unstructured.Unstructured {
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
	was := childRecordOf(live)
	next.SetLabels(replaceKeys(live.GetLabels(), was.Labels, desired.GetLabels()))
	next.SetAnnotations(replaceKeys(live.GetAnnotations(), was.Annotations, desired.GetAnnotations()))
	next.SetOwnerReferences(desired.GetOwnerReferences())
	next.SetManagedFields(nil)
	if was.Referenced {
		record := childRecordOf(next)
		record.Referenced, record.Since, record.Copied = true, was.Since, was.Copied
		return withRecord(next, record)
	}
	return next
}

func replaceKeys(live map[string]string, was []string, with map[string]string) map[string]string {
	next := orEmpty(maps.Clone(live))
	for _, key := range was {
		delete(next, key)
	}
	maps.Copy(next, with)
	return next
}

// childChanges is what must be written beside the gateway object for a rendering.
func (p *Plan) childChanges(r rendering) (b Children) {
	for _, ref := range r.delete {
		if o := p.findChild(ref); o != nil {
			b.DeleteFirst = append(b.DeleteFirst, o)
		}
	}
	for i, desired := range r.children {
		live := findObject(p.children, desired)
		switch {
		case live == nil && childRecordOf(desired).Referenced:
		case live == nil || slices.Contains(b.DeleteFirst, live):
			b.Apply = append(b.Apply, desired)
		case !p.childUpToDate(r.children, i):
			put := mergeChild(live, desired)
			if key, numbers := NumberNeeded(desired); key != "" && numbers.containsNumber(live.GetAnnotations()[key]) && p.numberInOrder(r.children, i) {
				put = WithNumber(put, key, numberOn(live, key))
			}
			b.Apply = append(b.Apply, put)
		}
	}
	for _, o := range p.obsoleteChildren(r) {
		if !slices.Contains(b.DeleteFirst, o) {
			b.DeleteLast = append(b.DeleteLast, o)
		}
	}
	return b
}

// LiveChildren are the objects that the release made beside the gateway object.
func (p *Plan) LiveChildren() []*unstructured.Unstructured { return p.children }

// UnreferencedChildren are those of them that the gateway object never named. They go at once when that is restored.
func (p *Plan) UnreferencedChildren() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.children), func(o *unstructured.Unstructured) bool { return childRecordOf(o).Referenced })
}

func (p *Plan) findChild(ref script.Reference) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(ref.APIVersion)
	u.SetKind(ref.Kind)
	u.SetName(ref.Name)
	return findObject(p.children, u)
}

// childUpToDate reports whether the object that is wanted at a place is there as it should be.
func (p *Plan) childUpToDate(wanted []*unstructured.Unstructured, at int) bool {
	live := findObject(p.children, wanted[at])
	return live != nil && matchesDesired(live, wanted[at]) && p.numberInOrder(wanted, at)
}

// obsoleteChildren are the objects that the executor deletes at once, because the rendering does not need them: objects that the gateway object never named, and copies
// whose policies are gone.
func (p *Plan) obsoleteChildren(r rendering) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.children), func(o *unstructured.Unstructured) bool {
		record := childRecordOf(o)
		return record.Referenced && !(record.Copied && r.needsCopies) || findObject(r.children, o) != nil
	})
}

// childrenUpToDate reports whether everything beside the object is there as it should be, and nothing else but what it named before.
func (p *Plan) childrenUpToDate(r rendering) bool {
	for i := range r.children {
		if !p.childUpToDate(r.children, i) {
			return false
		}
	}
	return len(p.obsoleteChildren(r)) == 0
}

// childrenEdited reports whether somebody else changed what we made.
func (p *Plan) childrenEdited(wanted []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(wanted, func(desired *unstructured.Unstructured) bool {
		live := findObject(p.children, desired)
		return live != nil && childRecordOf(live).Desired == childRecordOf(desired).Desired && !matchesDesired(live, desired)
	})
}

// numberInOrder reports whether the number of an object is smaller than that of the next one, where both have one.
func (p *Plan) numberInOrder(wanted []*unstructured.Unstructured, at int) bool {
	if at+1 >= len(wanted) {
		return true
	}
	next := findObject(p.children, wanted[at+1])
	key, _ := NumberNeeded(wanted[at])
	if next == nil || key == "" {
		return key == ""
	}
	return numberOn(findObject(p.children, wanted[at]), key) < numberOn(next, key)
}

// Range is the numbers that an annotation may have: each at most once among all objects of a class. Whoever writes the object chooses one.
type Range struct{ Min, Max int }

const rangeFormat = "a number from %d to %d"

func (r Range) String() string { return fmt.Sprintf(rangeFormat, r.Min, r.Max) }

func parseRange(text string) (r Range, ok bool) {
	n, err := fmt.Sscanf(text, rangeFormat, &r.Min, &r.Max)
	return r, err == nil && n == 2
}

func (r Range) containsNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && r.Min <= n && n <= r.Max
}

// NumberNeeded is the annotation of an object that needs a number, and the range of it; "" when there is none.
func NumberNeeded(obj *unstructured.Unstructured) (annotation string, r Range) {
	for key, value := range obj.GetAnnotations() {
		if r, ok := parseRange(value); ok {
			return key, r
		}
	}
	return "", Range{}
}

// WithNumber is the object with its number.
func WithNumber(obj *unstructured.Unstructured, annotation string, number int) *unstructured.Unstructured {
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
		return Range{}, fmt.Errorf("%s has the order %d, and its canary needs a lower one; set its annotation %s to a higher number", object, own, orders.Annotation)
	}
	return Range{orders.Min, own - 1}, nil
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() && a.GetName() == b.GetName()
}

func findObject(all []*unstructured.Unstructured, like *unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range all {
		if sameObject(o, like) {
			return o
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
