package traffic

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// maxOriginal is how large the original may be in its annotation. All annotations of an object together may have 256 KiB, and
// the original holds most of the others a second time.
const (
	maxOriginal    = 200 << 10
	maxAnnotations = 256 << 10
)

// TooLargeError says that the annotations of a release do not fit on an object.
type TooLargeError struct {
	Object string
	Bytes  int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is too large to be released through: it takes %d bytes of annotations to keep its original, and Kubernetes allows %d in all; "+
		"split the object, or remove large annotations such as kubectl.kubernetes.io/last-applied-configuration by applying it server-side",
		e.Object, e.Bytes, maxAnnotations)
}

// original is the form of the annotation that OpenKruise Rollouts defined; users compare its text.
type original struct {
	Spec        any               `json:"spec"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (c Content) original() original {
	return original(c)
}

// parseOriginal reads the annotation. ok is false when there is none, or it is none of ours.
func parseOriginal(text string) (c Content, ok bool) {
	var o struct {
		Spec        json.RawMessage   `json:"spec"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	if text == "" || json.Unmarshal([]byte(text), &o) != nil || o.Spec == nil {
		return Content{}, false
	}
	return Content{Spec: fromJSON(o.Spec), Labels: o.Labels, Annotations: o.Annotations}.normal(), true
}

// rendered is what the writer of an object leaves behind for those who look at it later.
type rendered struct {
	// Desired is the digest of what was meant, Kept of what the API server made of it by defaulting and pruning.
	Desired string `json:"desired"`
	Kept    string `json:"kept"`
}

// Stamp returns desired with the record of what is about to be written: the digest of desired itself and that of what the
// API server keeps of it, as a dry run told. An object without releases needs no record and is returned as it is.
func Stamp(desired *unstructured.Unstructured, keptDigest string) *unstructured.Unstructured {
	stamped := desired.DeepCopy()
	annotations := stamped.GetAnnotations()
	if annotations[api.AnnotationReleases] == "" {
		return stamped
	}
	annotations[api.AnnotationRendered] = jsonOf(rendered{Desired: Digest(desired), Kept: keptDigest})
	stamped.SetAnnotations(annotations)
	return stamped
}

func parseRendered(text string) rendered {
	var r rendered
	if json.Unmarshal([]byte(text), &r) != nil {
		return rendered{}
	}
	return r
}

// fits checks that the annotations stay within what Kubernetes stores.
func fits(obj *unstructured.Unstructured) error {
	total, annotations := 0, obj.GetAnnotations()
	for k, v := range annotations {
		total += len(k) + len(v)
	}
	const room = 256 // the record that Stamp adds
	if len(annotations[api.AnnotationOriginalSpec]) > maxOriginal || total+room > maxAnnotations {
		return &TooLargeError{Object: obj.GetKind() + " " + obj.GetName(), Bytes: total}
	}
	return nil
}
