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

// This file is about objects that a release creates for a gateway object: those that its script returns, such as the canary Ingress of an Ingress, and
// copies of policies. Each belongs to one release on one gateway object. The label [api.LabelRolloutUID] and the annotation [api.AnnotationReleases] name
// the release, and the gateway object is the owner. The release keeps fields that others add, such as an annotation of an Ingress controller.

// Children lists the objects that a step deletes and writes for a gateway object. The executor deletes DeleteFirst before it writes anything. It writes
// Apply before the gateway object, and deletes DeleteLast after it. An object of Apply that exists in the cluster carries its resourceVersion. Apply omits
// missing objects that the gateway object refers to: [Plan.ChildrenToPrepare] returns those.
type Children struct {
	DeleteFirst, Apply, DeleteLast []*unstructured.Unstructured
}

// childRecord is the record that the executor writes on an object that it creates.
type childRecord struct {
	// Desired is the digest of the desired object.
	Desired string `json:"desired"`
	// Labels and Annotations are the keys that the release sets.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// Referenced says that the gateway object refers to the object. Since is the time of the create request then, by the clock of the executor that sent
	// it.
	Referenced bool              `json:"named,omitempty"`
	Since      *metav1.MicroTime `json:"since,omitempty"`
	// Copied says that the object is a copy of a policy.
	Copied bool `json:"copied,omitempty"`
}

func childRecordOf(obj *unstructured.Unstructured) (r childRecord) {
	if json.Unmarshal([]byte(obj.GetAnnotations()[api.AnnotationRendered]), &r) != nil {
		return childRecord{}
	}
	return r
}

// childrenOf picks from some objects the ones that a release created for the gateway object. It includes objects of an earlier Rollout with the same name
// that was removed by force.
func childrenOf(live *unstructured.Unstructured, rel Release, others []*unstructured.Unstructured) (made []*unstructured.Unstructured) {
	for _, o := range others {
		_, listed := parseEntries(o.GetAnnotations()[api.AnnotationReleases]).inheritOrphan(rel)[rel.UID]
		if isChildOf(o, live) && (listed || o.GetLabels()[api.LabelRolloutUID] == rel.UID) {
			made = append(made, o)
		}
	}
	return made
}

// isChildOf reports whether any release created an object for a gateway object.
func isChildOf(o, live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == live.GetUID() })
}

// desiredChildren returns the objects that a rendering needs for the gateway object: copies of policies, and objects that the script creates. A gateway
// must know a copy before it sends requests to the canary. So a copy is treated as an object that the gateway object refers to.
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

// desiredChild is one object that a script creates, with the records of the release on it.
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

// matchesDesired reports whether a live object has all that the release wrote. Fields that others have added do not count.
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

// mergeChild returns desired as the executor writes it over a live object: it keeps labels and annotations that others added.
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

// childChanges returns the objects to delete and to write for a rendering.
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

// LiveChildren returns the objects that the release created for the gateway object.
func (p *Plan) LiveChildren() []*unstructured.Unstructured { return p.children }

// UnreferencedChildren returns the live children that the gateway object never referred to. The executor deletes them as soon as the gateway object is
// restored.
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

// childUpToDate reports whether the cluster has the desired object at an index, up to date and with its number in order.
func (p *Plan) childUpToDate(wanted []*unstructured.Unstructured, at int) bool {
	live := findObject(p.children, wanted[at])
	return live != nil && matchesDesired(live, wanted[at]) && p.numberInOrder(wanted, at)
}

// obsoleteChildren returns the objects that the executor deletes at once, because the rendering does not need them. These are objects that the gateway
// object never referred to, and copies whose policies are gone.
func (p *Plan) obsoleteChildren(r rendering) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.children), func(o *unstructured.Unstructured) bool {
		record := childRecordOf(o)
		return record.Referenced && !(record.Copied && r.needsCopies) || findObject(r.children, o) != nil
	})
}

// childrenUpToDate reports whether all children are up to date, and none is obsolete.
func (p *Plan) childrenUpToDate(r rendering) bool {
	for i := range r.children {
		if !p.childUpToDate(r.children, i) {
			return false
		}
	}
	return len(p.obsoleteChildren(r)) == 0
}

// childrenEdited reports whether another client changed an object that the release created.
func (p *Plan) childrenEdited(wanted []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(wanted, func(desired *unstructured.Unstructured) bool {
		live := findObject(p.children, desired)
		return live != nil && childRecordOf(live).Desired == childRecordOf(desired).Desired && !matchesDesired(live, desired)
	})
}

// numberInOrder reports whether the number of an object is smaller than the number of the next object, where both have one.
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

// Range is the range of numbers that an annotation may have. Among all objects of a class, each number occurs at most once. The executor chooses a number
// when it writes the object.
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

// NumberNeeded returns the annotation of an object that needs a number, and its range; "" if the object needs no number.
func NumberNeeded(obj *unstructured.Unstructured) (annotation string, r Range) {
	for key, value := range obj.GetAnnotations() {
		if r, ok := parseRange(value); ok {
			return key, r
		}
	}
	return "", Range{}
}

// WithNumber returns a copy of the object with its number.
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

// rangeBefore returns the range of numbers below the number of an object.
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
