package rollout

import "strings"

// SameImage reports whether a given image is the image in a pod template. It is if both are equal, or if only a digest is given and the template's
// image has it. It also is if name and digest are equal and only the template has a tag in addition. A tag never equals a digest: only the registry
// knows the digest of a tag.
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

// withoutTag removes the tag from an image. The port of a registry is not a tag.
func withoutTag(image string) string {
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}
