// Package cache keeps in memory, by watches, the objects that releases look at, together with the writes of this process. An [Overlay] has one
// resource, and only the fields that a release asks for.
//
// It reads nothing from the API server on request, and it does not say when a watch is good enough: an overlay that cannot tell says so, and the
// caller asks the API server.
//
// Invariant: an overlay never shows an object as it was before an answer that [Overlay.StoreAnswer] or [Overlay.MarkDeleted] has taken in.
package cache
