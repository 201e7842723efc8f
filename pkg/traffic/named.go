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

// refersTo reports whether a rendering names an object that the original does not.
func refersTo(rendered, original any, o *unstructured.Unstructured) bool {
	return says(rendered, o.GetName()) && !says(original, o.GetName())
}

// says reports whether a text stands anywhere in a value.
func says(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case map[string]any:
		for _, e := range v {
			if says(e, text) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return says(e, text) })
	}
	return false
}

// Made is an object as it is created at a time: one that is to be named tells since when it is there.
func Made(obj *unstructured.Unstructured, now time.Time) *unstructured.Unstructured {
	record := recordOf(obj)
	if !record.Named {
		return obj
	}
	since := metav1.NewMicroTime(now)
	record.Since = &since
	return recorded(obj, record)
}

// toBeNamed is a made object that the gateway object refers to.
func toBeNamed(obj *unstructured.Unstructured) *unstructured.Unstructured {
	record := recordOf(obj)
	record.Named = true
	return recorded(obj, record)
}

// toBeCopied marks an object as the copy of a policy. A gateway must know it before it sends requests to the canary.
func toBeCopied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	record := recordOf(obj)
	record.Named, record.Copied = true, true
	return recorded(obj, record)
}

func recorded(obj *unstructured.Unstructured, record madeRecord) *unstructured.Unstructured {
	next := obj.DeepCopy()
	annotations := orEmpty(next.GetAnnotations())
	annotations[api.AnnotationRendered] = jsonOf(record)
	next.SetAnnotations(annotations)
	return next
}

// mostUnderWay is how long a request that makes something may be under way: no other clock than that of its sender is trusted further.
const mostUnderWay = 2 * time.Second

// madeAt is when an object was there, or a moment later: its record tells when it was asked for, and the API server when it was made, in whole
// seconds.
func madeAt(obj *unstructured.Unstructured) time.Time {
	made, asked := obj.GetCreationTimestamp().Add(time.Second), recordOf(obj).Since
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

// toName are the objects that are yet to be made before the object may name them.
func (p *Plan) toName(r rendering) (missing []*unstructured.Unstructured) {
	for _, desired := range r.beside {
		if recordOf(desired).Named && find(p.made, desired) == nil {
			missing = append(missing, desired)
		}
	}
	return missing
}

// namedSince is when the last of the objects that a rendering names was made; zero when it names none.
func (p *Plan) namedSince(r rendering) (since time.Time) {
	for _, desired := range r.beside {
		live := find(p.made, desired)
		if live == nil || !recordOf(desired).Named {
			continue
		}
		if at := madeAt(live); at.After(since) {
			since = at
		}
	}
	return since
}

// Left are the objects that the release made for the gateway object to name. They go a while after that was restored.
func (p *Plan) Left() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(p.made), func(o *unstructured.Unstructured) bool { return !recordOf(o).Named })
}

// Prepared is what a step has to have made before the object names it.
func (p *Plan) Prepared(step int32) ([]*unstructured.Unstructured, error) {
	r, err := p.render(step)
	if err != nil {
		return nil, err
	}
	return p.toName(r), nil
}

// Names reports whether a step has the object name what was made.
func (p *Plan) Names(step int32) bool {
	r, err := p.render(step)
	return err == nil && r.names()
}

func (r rendering) names() bool {
	return slices.ContainsFunc(r.beside, func(o *unstructured.Unstructured) bool { return recordOf(o).Named })
}

// through is a value with what stands behind created objects in place of them: an entry that leads to one which passes requests on, and
// copies them elsewhere, leads where it passes them on.
func through(v any, created []map[string]any) any {
	if len(created) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		next := make(map[string]any, len(v))
		for key, e := range v {
			next[key] = through(e, created)
		}
		for _, object := range created {
			if to := passesTo(object); to != nil && text(v, "name") == at(object, "metadata", "name") && text(v, "kind") == object["kind"] {
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
			next[i] = through(e, created)
		}
		return next
	}
	return v
}

// passesTo is where an object of a script passes requests on that it also copies; nil when it is none of that kind.
func passesTo(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	to, _ := spec["mirroring"].(map[string]any)
	return to
}
