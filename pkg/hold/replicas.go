package hold

import (
	"strconv"

	"sluice.dev/sluice/pkg/api"
)

const originalReplicas = api.AnnotationOriginalPrefix + "replicas"

// shrinking is about the replicas of a Deployment that a release has shrunk: the executor's are in force, and the owner's in an annotation.
type shrinking struct {
	// given is what the executor wrote. Another number in old came by the subresource scale, and the executor has yet to see it.
	given string
	// was and is are the replicas of old and new.
	was, is int64
	// original is what they shall be when the release is over.
	original string
}

// shrinkingOf is nil for a Deployment that has its owner's replicas. One that was let go at the end of a release may not have them yet.
func shrinkingOf(w *write) *shrinking {
	if !isShrunk(w.oldAnnotations) {
		return nil
	}
	s := &shrinking{given: w.oldAnnotations[api.AnnotationReplicas], was: replicasOf(w.old), is: replicasOf(w.new), original: w.oldAnnotations[originalReplicas]}
	now := w.newAnnotations[originalReplicas]
	switch {
	case s.moves() && strconv.FormatInt(s.is, 10) != s.given:
		s.original = strconv.FormatInt(s.is, 10)
	case numbers.MatchString(now): // it was decided before in this request
		s.original = now
	}
	return s
}

func isShrunk(annotations map[string]string) bool {
	_, is := annotations[originalReplicas]
	return is && numbers.MatchString(annotations[api.AnnotationReplicas])
}

// moves says whether the request changes the replicas; to what the API server refuses it may.
func (s *shrinking) moves() bool { return s.is != s.was && s.is >= 0 }

// restore puts the executor's replicas back, and the owner's into the annotation. A nil shrinking has none.
func (s *shrinking) restore(w *write) {
	if s == nil {
		return
	}
	if s.moves() {
		w.set(parse(s.given), "spec", "replicas")
	}
	w.annotations[originalReplicas] = s.original
}

// silent says that the request asks for nothing that is not remembered already.
func (s *shrinking) silent(w *write) bool {
	return s == nil || s.original == w.oldAnnotations[originalReplicas] && (s.is == s.was || s.given == strconv.FormatInt(s.was, 10))
}
