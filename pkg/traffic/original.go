package traffic

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// original is the form of the annotation that OpenKruise Rollouts defined; users compare its text.
type original struct {
	Spec        any               `json:"spec"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (c Content) asOriginal() original {
	return original(c)
}

// parseOriginal reads the annotation. ok is false if the annotation is absent, or has another form.
func parseOriginal(text string) (c Content, ok bool) {
	var o struct {
		Spec        json.RawMessage   `json:"spec"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	if text == "" || json.Unmarshal([]byte(text), &o) != nil || o.Spec == nil {
		return Content{}, false
	}
	return Content{Spec: fromJSON(o.Spec), Labels: o.Labels, Annotations: o.Annotations}.withoutReleaseAnnotations(), true
}

// rendered is the record that an executor leaves on a gateway object for later reconciles.
type rendered struct {
	// Desired is the digest of the desired object. LastApplied is the digest of the object that the API server kept after defaulting and pruning.
	Desired     string `json:"desired"`
	LastApplied string `json:"kept"`
}

// StampRendered returns desired with the record of the next write. The record has the digest of desired, and the digest of the content that the API server
// keeps according to a dry run. An object without releases needs no record, and comes back unchanged.
func StampRendered(desired *unstructured.Unstructured, keptDigest string) *unstructured.Unstructured {
	stamped := desired.DeepCopy()
	annotations := stamped.GetAnnotations()
	if annotations[api.AnnotationReleases] == "" {
		return stamped
	}
	annotations[api.AnnotationRendered] = jsonOf(rendered{Desired: ContentDigest(desired), LastApplied: keptDigest})
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
