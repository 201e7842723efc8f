package traffic

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// This file is about created objects that the gateway object refers to, such as a TraefikService that mirrors requests. A gateway watches the two kinds
// separately, and may see the two changes in any order. It answers with errors while it knows the reference and not its target. So the executor creates
// such an object some time before the gateway object refers to it, and keeps it until the release ends.

// addsReference reports whether a rendering refers to an object that the original does not refer to.
func addsReference(rendered, original any, o *unstructured.Unstructured) bool {
	return containsString(rendered, o.GetName()) && !containsString(original, o.GetName())
}

// containsString reports whether a value contains a text as a string anywhere.
func containsString(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case map[string]any:
		for _, e := range v {
			if containsString(e, text) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return containsString(e, text) })
	}
	return false
}

// StampCreation returns an object as the executor creates it at a time: an object that the gateway object refers to records the time.
func StampCreation(obj *unstructured.Unstructured, now time.Time) *unstructured.Unstructured {
	record := childRecordOf(obj)
	if !record.Referenced {
		return obj
	}
	since := metav1.NewMicroTime(now)
	record.Since = &since
	return withRecord(obj, record)
}

// markReferenced marks a created object as one that the gateway object refers to.
func markReferenced(obj *unstructured.Unstructured) *unstructured.Unstructured {
	record := childRecordOf(obj)
	record.Referenced = true
	return withRecord(obj, record)
}

// markCopied marks an object as the copy of a policy. A gateway must know it before it sends requests to the canary.
func markCopied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	record := childRecordOf(obj)
	record.Referenced, record.Copied = true, true
	return withRecord(obj, record)
}

func withRecord(obj *unstructured.Unstructured, record childRecord) *unstructured.Unstructured {
	next := obj.DeepCopy()
	annotations := orEmpty(next.GetAnnotations())
	annotations[api.AnnotationRendered] = jsonOf(record)
	next.SetAnnotations(annotations)
	return next
}

// mostUnderWay is the longest time that a create request may take. A later creation time of the API server means that the two clocks differ.
const mostUnderWay = 2 * time.Second

// childCreatedAt returns the time from which an object exists, or a moment later. The record of the object has the time of the request, and the API server
// has the time of the creation in whole seconds.
func childCreatedAt(obj *unstructured.Unstructured) time.Time {
	made, asked := obj.GetCreationTimestamp().Add(time.Second), childRecordOf(obj).Since
	switch {
	case asked == nil:
		return made
	case made.Before(asked.Time):
		return asked.Time
	case made.After(asked.Add(mostUnderWay)):
		return asked.Add(mostUnderWay)
	}
	return made
}

// missingChildren returns the objects that the executor must create before the gateway object may refer to them.
func (p *Plan) missingChildren(r rendering) (missing []*unstructured.Unstructured) {
	for _, desired := range r.children {
		if childRecordOf(desired).Referenced && findObject(p.children, desired) == nil {
			missing = append(missing, desired)
		}
	}
	return missing
}

// referencedSince returns the creation time of the newest object that a rendering refers to; zero if it refers to none.
func (p *Plan) referencedSince(r rendering) (since time.Time) {
	for _, desired := range r.children {
		live := findObject(p.children, desired)
		if live == nil || !childRecordOf(desired).Referenced {
			continue
		}
		if at := childCreatedAt(live); at.After(since) {
			since = at
		}
	}
	return since
}

// ReferencedChildren returns the objects that the release created for the gateway object to refer to. The executor deletes them some time after it
// restored the gateway object.
func (p *Plan) ReferencedChildren() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.children), func(o *unstructured.Unstructured) bool { return !childRecordOf(o).Referenced })
}

// ChildrenToPrepare returns the objects that the executor must create before the gateway object of a step refers to them.
func (p *Plan) ChildrenToPrepare(step int32) ([]*unstructured.Unstructured, error) {
	r, err := p.renderStep(step)
	if err != nil {
		return nil, err
	}
	return p.missingChildren(r), nil
}

// ReferencesChildren reports whether the gateway object of a step refers to objects that the release created.
func (p *Plan) ReferencesChildren(step int32) bool {
	r, err := p.renderStep(step)
	return err == nil && r.referencesChildren()
}

func (r rendering) referencesChildren() bool {
	return slices.ContainsFunc(r.children, func(o *unstructured.Unstructured) bool { return childRecordOf(o).Referenced })
}

// resolveForwarding returns a value in which each reference to a created object that forwards and mirrors requests is replaced by the forward target of
// that object.
func resolveForwarding(v any, created []map[string]any) any {
	if len(created) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		next := make(map[string]any, len(v))
		for key, e := range v {
			next[key] = resolveForwarding(e, created)
		}
		for _, object := range created {
			if to := forwardTarget(object); to != nil && firstString(v, "name") == stringAt(object, "metadata", "name") && firstString(v, "kind") == object["kind"] {
				next["name"] = to["name"]
				delete(next, "kind")
				for _, key := range []string{"kind", "namespace"} {
					if to[key] != nil {
						next[key] = to[key]
					}
				}
			}
		}
		return next
	case []any:
		next := make([]any, len(v))
		for i, e := range v {
			next[i] = resolveForwarding(e, created)
		}
		return next
	}
	return v
}

// forwardTarget returns the target to which an object of a script forwards requests that it also mirrors; nil for other objects.
func forwardTarget(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	to, _ := spec["mirroring"].(map[string]any)
	return to
}
