// Package router stands in for Istio's proxy in demos and tests: it watches one VirtualService of a cluster and divides real HTTP
// requests between local servers as that says. It is no gateway: it knows weights, and matches of paths, headers and query
// parameters, and nothing else of Istio. Its one invariant: a request goes where the VirtualService that was seen last sends it,
// and one that this does not tell is refused, never guessed.
package router
