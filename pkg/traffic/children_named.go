package traffic

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// This file is about made objects that the gateway object names, such as a TraefikService that copies requests. A gateway hears of the two by
// watches of their own, in any order, and answers with errors where it is led to what it does not know. So such an object is there for a
// while before it is named, and stays for a while when it no longer is: until the release ends.

// addsReference reports whether a rendering names an object that the original does not.
func addsReference(rendered, original any, o *unstructured.Unstructured) bool {
	return containsString(rendered, o.GetName()) && !containsString(original, o.GetName())
}

// containsString reports whether a text stands anywhere in a value.
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

// StampCreation is an object as it is created at a time: one that is to be named tells since when it is there.
func StampCreation(obj *unstructured.Unstructured, now time.Time) *unstructured.Unstructured {
	record := childRecordOf(obj)
	if !record.Referenced {
		return obj
	}
	since := metav1.NewMicroTime(now)
	record.Since = &since
	return withRecord(obj, record)
}

// markReferenced is a made object that the gateway object refers to.
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

// mostUnderWay is how long a request that makes something may be under way: no other clock than that of its sender is trusted further.
const mostUnderWay = 2 * time.Second

// childCreatedAt is when an object was there, or a moment later: its record tells when it was asked for, and the API server when it was made, in whole
// seconds.
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

// missingChildren are the objects that are yet to be made before the object may name them.
func (p *Plan) missingChildren(r rendering) (missing []*unstructured.Unstructured) {
	for _, desired := range r.children {
		if childRecordOf(desired).Referenced && findObject(p.children, desired) == nil {
			missing = append(missing, desired)
		}
	}
	return missing
}

// referencedSince is when the last of the objects that a rendering names was made; zero when it names none.
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

// ReferencedChildren are the objects that the release made for the gateway object to name. They go a while after that was restored.
func (p *Plan) ReferencedChildren() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.children), func(o *unstructured.Unstructured) bool { return !childRecordOf(o).Referenced })
}

// ChildrenToPrepare is what a step has to have made before the object names it.
func (p *Plan) ChildrenToPrepare(step int32) ([]*unstructured.Unstructured, error) {
	r, err := p.renderStep(step)
	if err != nil {
		return nil, err
	}
	return p.missingChildren(r), nil
}

// ReferencesChildren reports whether a step has the object name what was made.
func (p *Plan) ReferencesChildren(step int32) bool {
	r, err := p.renderStep(step)
	return err == nil && r.referencesChildren()
}

func (r rendering) referencesChildren() bool {
	return slices.ContainsFunc(r.children, func(o *unstructured.Unstructured) bool { return childRecordOf(o).Referenced })
}

// resolveForwarding is a value with what stands behind created objects in place of them: an entry that leads to one which passes requests on, and
// copies them elsewhere, leads where it passes them on.
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

// forwardTarget is where an object of a script passes requests on that it also copies; nil when it is none of that kind.
func forwardTarget(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	to, _ := spec["mirroring"].(map[string]any)
	return to
}
