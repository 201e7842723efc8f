package traffic

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

const (
	// maxOriginal is how large the original may be in its annotation. All annotations of an object together may have 256 KiB, and
	// the original holds most of the others a second time.
	maxOriginal    = 200 << 10
	maxAnnotations = 256 << 10
	// maxStored is how large it may be in an object of its own; a whole object may have 1.5 MiB.
	maxStored = 1 << 20
)

// Stored is an original that is too large for its annotation. It is kept in a ControllerRevision, which the annotation names.
type Stored struct {
	// Name follows from the object and the content, so that one name never means two originals.
	Name string
	// Data is what the annotation would hold.
	Data []byte
}

// reference is what the annotation holds of a [Stored].
type reference struct {
	ControllerRevision string `json:"controllerRevision"`
}

// StoredIn is the name of the ControllerRevision that holds the original of an object, "" when there is none.
func StoredIn(obj *unstructured.Unstructured) string {
	var r reference
	if json.Unmarshal([]byte(obj.GetAnnotations()[api.AnnotationOriginalSpec]), &r) != nil {
		return ""
	}
	return r.ControllerRevision
}

// CompactOriginal is the object as it is written: an original that is too large for the annotation is taken out and returned, and with
// apart any other as well. stored is nil when the object holds it itself. [ExpandOriginal] is the inverse.
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

// ReferToOriginal is the object with an original that is kept in the ControllerRevision of that name.
func ReferToOriginal(obj *unstructured.Unstructured, name string) *unstructured.Unstructured {
	return withOriginal(obj, jsonOf(reference{ControllerRevision: name}))
}

// ExpandOriginal is the object with the original that its annotation names. Data that is not the one named changes nothing: the original
// then counts as lost.
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

// annotationsSize is how much the annotations of an object take, with room for the record that Stamp adds.
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
	// What takes too much, and how many bytes are allowed.
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
