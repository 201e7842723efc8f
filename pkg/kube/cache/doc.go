// Package cache keeps the objects that releases look at in memory, together with the writes of this process. Watches
// feed it. An [Overlay] has one resource, and only the fields that a release needs.
//
// It reads nothing from the API server on request. It does not decide when a watch is good enough: an overlay that
// cannot answer says so, and the caller asks the API server.
//
// Invariant: an overlay never shows an object as it was before an answer that [Overlay.StoreAnswer] or
// [Overlay.MarkDeleted] has taken in.
package cache
