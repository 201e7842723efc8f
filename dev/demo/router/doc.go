// Package router replaces Istio's proxy in demos and tests: it watches one VirtualService of a cluster and divides real HTTP requests between local servers
// accordingly. It is not a gateway: it supports weights, and matches of paths, headers and query parameters, and nothing else of Istio. Its one invariant: a
// request goes to the destination of the latest observed VirtualService. The router refuses a request without a known destination, and never guesses.
package router
