package traffic

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// LastAppliedDigest is the digest of what the API server kept of our last write of an object, "" when there is none. If it differs from
// [ContentDigest], somebody else changed the object since.
func LastAppliedDigest(obj *unstructured.Unstructured) string {
	return parseRendered(obj.GetAnnotations()[api.AnnotationRendered]).LastApplied
}
