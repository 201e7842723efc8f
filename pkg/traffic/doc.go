// Package traffic shapes Services and gateway objects for releases: from what its owner wants of an object, and the releases
// that are under way on it, to the object that should exist.
//
// It is pure: it knows no client and no clock, and it does not decide when to route. Everything that it must know of the past
// is on the object itself, in three annotations: the owner's original, the releases with their strategies, and the digest of
// what was last written. Several releases may shape one object; the desired object is a fold of all of them over the original.
//
// Invariant: with the last release off an object, its spec, labels and annotations are exactly what its owner last wanted.
package traffic
