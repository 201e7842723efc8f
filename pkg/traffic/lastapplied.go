package traffic

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// LastAppliedDigest returns the digest of the content that the API server kept of the last write of a release; "" without such a write. If it differs from
// [ContentDigest], another client changed the object since.
func LastAppliedDigest(obj *unstructured.Unstructured) string {
	return parseRendered(obj.GetAnnotations()[api.AnnotationRendered]).LastApplied
}
