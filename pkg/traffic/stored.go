package traffic

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

const (
	// maxOriginal is the largest size of the original in its annotation. All annotations of an object together may have 256 KiB, and the original repeats
	// most of the others.
	maxOriginal    = 200 << 10
	maxAnnotations = 256 << 10
	// maxStored is the largest size of an original in an object of its own; a whole object may have 1.5 MiB.
	maxStored = 1 << 20
)

// Stored is an original that is too large for its annotation. It is kept in a ControllerRevision, which the annotation names.
type Stored struct {
	// Name follows from the object and the content, so that one name never means two originals.
	Name string
	// Data is the content of the annotation that the ControllerRevision replaces.
	Data []byte
}

// reference is the content of the annotation that refers to a [Stored].
type reference struct {
	ControllerRevision string `json:"controllerRevision"`
}

// StoredIn returns the name of the ControllerRevision that holds the original of an object; "" if the object refers to none.
func StoredIn(obj *unstructured.Unstructured) string {
	var r reference
	if json.Unmarshal([]byte(obj.GetAnnotations()[api.AnnotationOriginalSpec]), &r) != nil {
		return ""
	}
	return r.ControllerRevision
}

// CompactOriginal returns the object as the executor writes it. It moves an original that is too large for the annotation into stored; if apart is true,
// it moves any original. stored is nil if the object keeps its original. [ExpandOriginal] is the inverse.
func CompactOriginal(obj *unstructured.Unstructured, apart bool) (compact *unstructured.Unstructured, stored *Stored) {
	text := obj.GetAnnotations()[api.AnnotationOriginalSpec]
	if !apart && len(text) <= maxOriginal && annotationsSize(obj) <= maxAnnotations {
		return obj, nil
	}
	content, ok := parseOriginal(text)
	if !ok {
		return obj, nil
	}
	stored = &Stored{Name: storedName(obj, content), Data: []byte(text)}
	return ReferToOriginal(obj, stored.Name), stored
}

// ReferToOriginal returns the object with a reference to an original that the ControllerRevision of that name holds.
func ReferToOriginal(obj *unstructured.Unstructured, name string) *unstructured.Unstructured {
	return withOriginal(obj, jsonOf(reference{ControllerRevision: name}))
}

// ExpandOriginal returns the object with the original that its annotation refers to. Data of another original changes nothing: the original then counts as
// lost.
func ExpandOriginal(obj *unstructured.Unstructured, data []byte) *unstructured.Unstructured {
	content, ok := parseOriginal(string(data))
	if !ok || storedName(obj, content) != StoredIn(obj) {
		return obj
	}
	return withOriginal(obj, jsonOf(content.asOriginal()))
}

func storedName(obj *unstructured.Unstructured, content Content) string {
	return "sluice-original-" + digestOf([]any{string(obj.GetUID()), content.asOriginal()})
}

func withOriginal(obj *unstructured.Unstructured, text string) *unstructured.Unstructured {
	next := obj.DeepCopy()
	annotations := orEmpty(next.GetAnnotations())
	annotations[api.AnnotationOriginalSpec] = text
	next.SetAnnotations(annotations)
	return next
}

// annotationsSize returns the size of the annotations of an object, with room for the record that [StampRendered] adds.
func annotationsSize(obj *unstructured.Unstructured) int {
	const room = 256
	total := room
	for k, v := range obj.GetAnnotations() {
		total += len(k) + len(v)
	}
	return total
}

// TooLargeError says that a release does not fit on an object.
type TooLargeError struct {
	Object string
	// The field What names the part that is too large. Bytes is its size, and Limit the allowed size.
	What         string
	Bytes, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is too large to be released through: %s takes %d bytes of %d; "+
		"split the object, or remove large annotations such as kubectl.kubernetes.io/last-applied-configuration by applying it server-side",
		e.Object, e.What, e.Bytes, e.Limit)
}

// checkSize checks that Kubernetes can store the object and its original.
func checkSize(obj *unstructured.Unstructured) error {
	e := &TooLargeError{Object: obj.GetKind() + " " + obj.GetName()}
	compact, stored := CompactOriginal(obj, false)
	if stored != nil && len(stored.Data) > maxStored {
		e.What, e.Bytes, e.Limit = "its original", len(stored.Data), maxStored
		return e
	}
	if total := annotationsSize(compact); total > maxAnnotations {
		e.What, e.Bytes, e.Limit = "the content of its annotations", total, maxAnnotations
		return e
	}
	return nil
}
