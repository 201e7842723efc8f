package traffic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// Content is the part of a gateway object that a release may shape, without the annotations of this package. An empty map counts as absent.
type Content struct {
	Spec        any
	Labels      map[string]string
	Annotations map[string]string
}

// ContentOf copies the content of an object.
func ContentOf(obj *unstructured.Unstructured) Content {
	copied := obj.DeepCopy()
	c := Content{Spec: copied.Object["spec"], Labels: copied.GetLabels(), Annotations: copied.GetAnnotations()}
	return c.withoutReleaseAnnotations()
}

// ContentDigest identifies the content of an object. It is equal for equal JSON, regardless of the order of keys. The annotations of this package do not
// count. The part before the dot covers the spec alone.
func ContentDigest(obj *unstructured.Unstructured) string { return ContentOf(obj).digest() }

func (c Content) digest() string {
	metadata := original{Labels: c.Labels, Annotations: c.Annotations}
	return digestOf(c.Spec) + "." + digestOf(metadata)
}

func digestOf(v any) string {
	sum := sha256.Sum256([]byte(jsonOf(v)))
	return hex.EncodeToString(sum[:8])
}

// sameSpec reports whether two digests belong to objects with equal specs.
func sameSpec(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

// withoutReleaseAnnotations drops the annotations of this package, and empty maps.
func (c Content) withoutReleaseAnnotations() Content {
	annotations := map[string]string{}
	for k, v := range c.Annotations {
		if !isReleaseAnnotation(k) {
			annotations[k] = v
		}
	}
	c.Annotations = orNil(annotations)
	c.Labels = orNil(maps.Clone(c.Labels))
	return c
}

// deepCopy returns a copy that shares no memory with c.
func (c Content) deepCopy() Content {
	return ContentOf(c.applyTo(&unstructured.Unstructured{Object: map[string]any{}}))
}

// applyTo writes the content to a copy of an object, and drops the annotations of this package from it.
func (c Content) applyTo(obj *unstructured.Unstructured) *unstructured.Unstructured {
	next := obj.DeepCopy()
	if c.Spec == nil {
		delete(next.Object, "spec")
	} else {
		next.Object["spec"] = (&unstructured.Unstructured{Object: map[string]any{"spec": toUnstructured(c.Spec)}}).DeepCopy().Object["spec"]
	}
	next.SetLabels(maps.Clone(orNil(c.Labels)))
	next.SetAnnotations(maps.Clone(orNil(c.Annotations)))
	return next
}

// withLastApplied takes over kubectl's record from another content. The record belongs to the client that applied last, never to a release.
func (c Content) withLastApplied(from Content) Content {
	annotations := orEmpty(maps.Clone(c.Annotations))
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if applied, ok := from.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		annotations[corev1.LastAppliedConfigAnnotation] = applied
	}
	c.Annotations = orNil(annotations)
	return c
}

func isReleaseAnnotation(annotation string) bool {
	switch annotation {
	case api.AnnotationOriginalSpec, api.AnnotationReleases, api.AnnotationRendered:
		return true
	}
	return false
}

func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// jsonOf returns the canonical text of a value: compact, keys sorted, <, > and & escaped. Values that are not JSON do not occur, because they come from
// the API server or from a script's output.
func jsonOf(v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		return "unprintable: " + err.Error()
	}
	return string(body)
}

// equalJSON compares JSON values; 1 and 1.0 are equal.
func equalJSON(a, b any) bool { return jsonOf(a) == jsonOf(b) }

// toUnstructured converts a value to the types of unstructured objects: integers become int64.
func toUnstructured(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = toUnstructured(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = toUnstructured(e)
		}
		return out
	case nil, string, bool, int64:
		return v
	}
	return fromJSON([]byte(jsonOf(v)))
}

// fromJSON parses one value; nil if the text is not JSON. Whole numbers become int64 and keep all digits.
func fromJSON(body []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil
	}
	return exactNumbers(v)
}

func exactNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = exactNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = exactNumbers(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return v
}
