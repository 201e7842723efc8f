// Package ext replaces an unpublished internal module of Traefik, whose extensions add options to routes. Here they add
// none.
package ext

// HTTP and Router are embedded in Traefik's configuration.
type (
	HTTP   struct{}
	Router struct{}
)
