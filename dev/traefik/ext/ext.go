// Package ext has the additions of other builds to Traefik's configuration: none. Traefik's module imports this package and does not contain it.
package ext

// HTTP has the additions to the HTTP configuration.
type HTTP struct{}

// Router has the additions to a router.
type Router struct{}
