package rollout

import "strings"

// SameImage reports whether an image that somebody names is the one in a pod template. It is when both are written alike; when
// only a digest is given that the template's image has; and when name and digest are alike and only the template has a tag as well.
// A tag is never taken for a digest, or the other way round: which one it stands for is known to the registry only.
func SameImage(given, have string) bool {
	if given == have {
		return true
	}
	_, digest, pinned := strings.Cut(have, "@")
	if !pinned {
		return false
	}
	name, want, named := strings.Cut(given, "@")
	if !named {
		return given == digest
	}
	return want == digest && name == withoutTag(have[:len(have)-len(digest)-1])
}

// withoutTag removes the tag of an image. The port of a registry is not a tag.
func withoutTag(image string) string {
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}
