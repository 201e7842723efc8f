package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prefixes of the keys of a version.
const (
	PrefixFleetVersion = "version/"
	PrefixFleetImages  = "images/"
)

// FleetImagesDigest returns "sha256:" and the SHA-256 digest in hex over the sorted pairs of container and image, each as name, NUL, image, NUL. Of an
// image with a digest, only the digest counts. Otherwise the registry's host does not count, because clusters use different mirrors.
func FleetImagesDigest(images map[string]string) string {
	sum := sha256.New()
	for _, container := range slices.Sorted(maps.Keys(images)) {
		fmt.Fprintf(sum, "%s\x00%s\x00", container, imageName(images[container]))
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// imageName returns the digest of an image reference, or else its path and tag. The first component of a reference is a host if it contains a dot
// or a colon, or if it is localhost (the grammar of github.com/distribution/reference).
func imageName(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	if host, path, ok := strings.Cut(image, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return path
	}
	return image
}

// Key returns the name of a release in permits and in lists of blocked versions. The name comes from its version, and without a version from
// its images. It is "" for a release that names nothing.
func (r FleetRelease) Key() string {
	switch {
	case r.Version != "":
		return PrefixFleetVersion + r.Version
	case len(r.Images) > 0:
		return PrefixFleetImages + FleetImagesDigest(r.Images)
	}
	return ""
}

// Same reports whether two releases name the same version.
func (r FleetRelease) Same(other FleetRelease) bool {
	return r.Version == other.Version && FleetImagesDigest(r.Images) == FleetImagesDigest(other.Images)
}

// Keys returns the names that a permit or a list of blocked versions may use for the version.
func (v FleetVersion) Keys() []string {
	var keys []string
	if v.Version != "" {
		keys = append(keys, PrefixFleetVersion+v.Version)
	}
	if v.Images != "" {
		keys = append(keys, PrefixFleetImages+v.Images)
	}
	return keys
}

// Named reports whether a key names the version.
func (v FleetVersion) Named(key string) bool { return slices.Contains(v.Keys(), key) }

// Matches reports whether a workload has the version of the release. If the release has a version and images, both must match.
func (r FleetRelease) Matches(v FleetVersion) bool {
	if r.Version == "" && len(r.Images) == 0 {
		return false
	}
	return (r.Version == "" || v.Version == r.Version) && (len(r.Images) == 0 || v.Images == FleetImagesDigest(r.Images))
}

// MergeFleetBlock takes into a list that a version was withdrawn or unblocked. The entry with the highest epoch counts. It does not change the list
// that it gets, and keeps the latest [MaxFleetBlocks] entries.
func MergeFleetBlock(list []FleetBlock, block FleetBlock) []FleetBlock {
	kept := make([]FleetBlock, 0, len(list)+1)
	for _, b := range list {
		switch {
		case b.Version != block.Version:
			kept = append(kept, b)
		case b.Epoch > block.Epoch || b.Epoch == block.Epoch && (block.Unblocked || b == block):
			return list
		}
	}
	kept = append(kept, block)
	return kept[max(0, len(kept)-MaxFleetBlocks):]
}
