// Package ext stands for a module that Traefik keeps within its own and does not publish: what extensions of it add to routes, which is nothing.
package ext

// HTTP and Router are embedded in Traefik's configuration.
type (
	HTTP   struct{}
	Router struct{}
)
