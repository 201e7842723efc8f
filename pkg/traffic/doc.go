// Package traffic shapes Services and gateway objects for releases. It takes the content that the owner wants and the releases that are under way on an
// object, and computes the desired object.
//
// The package is pure: it has no client and no clock, and it does not decide when to route. Its only memory is three annotations of the object: the
// owner's original, the releases with their strategies, and a digest of the last write. Several releases may shape one object. The desired object is a
// fold of all of them over the original.
//
// Invariant: with the last release off an object, its spec, labels and annotations are exactly those that its owner last wanted.
package traffic
