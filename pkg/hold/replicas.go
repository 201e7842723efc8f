package hold

import (
	"strconv"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

const originalReplicas = api.AnnotationOriginalPrefix + "replicas"

// scaledDown has the replicas of a Deployment that a release has scaled down: the executor's number is in force, and the owner's is in an
// annotation.
type scaledDown struct {
	// executorReplicas is what the executor wrote. Another number in old came by the subresource scale, and the executor has yet to see it.
	executorReplicas string
	// was and is are the replicas of old and new.
	was, is int64
	// original is what they shall be when the release is over.
	original string
}

// scaledDownOf is nil for a Deployment that has its owner's replicas. A Deployment that was released at the end of a release may not have them yet.
func scaledDownOf(w *write) *scaledDown {
	if !isScaledDown(w.oldAnnotations) {
		return nil
	}
	s := &scaledDown{executorReplicas: w.oldAnnotations[api.AnnotationAssignedReplicas], was: replicasOf(w.old), is: replicasOf(w.new), original: w.oldAnnotations[originalReplicas]}
	now := w.newAnnotations[originalReplicas]
	switch {
	case s.changesReplicas() && strconv.FormatInt(s.is, 10) != s.executorReplicas:
		s.original = strconv.FormatInt(s.is, 10)
	case patterns[kinds.Number].MatchString(now): // it was decided before in this request
		s.original = now
	}
	return s
}

func isScaledDown(annotations map[string]string) bool {
	_, is := annotations[originalReplicas]
	return is && patterns[kinds.Number].MatchString(annotations[api.AnnotationAssignedReplicas])
}

// changesReplicas says whether the request changes the replicas; to what the API server refuses it may.
func (s *scaledDown) changesReplicas() bool { return s.is != s.was && s.is >= 0 }

// restoreReplicas puts the executor's replicas back, and the owner's into the annotation. A nil shrinking has none.
func (s *scaledDown) restoreReplicas(w *write) {
	if s == nil {
		return
	}
	if s.changesReplicas() {
		w.setField(parseNumber(s.executorReplicas), "spec", "replicas")
	}
	w.annotations[originalReplicas] = s.original
}

// asksNothing says that the request asks for nothing that is not remembered already.
func (s *scaledDown) asksNothing(w *write) bool {
	return s == nil || s.original == w.oldAnnotations[originalReplicas] && (s.is == s.was || s.executorReplicas == strconv.FormatInt(s.was, 10))
}
