// Package ext is what other builds of Traefik add to its configuration: nothing. Traefik's module names this one and does not have it.
package ext

// HTTP adds to what is configured of HTTP.
type HTTP struct{}

// Router adds to a router.
type Router struct{}
