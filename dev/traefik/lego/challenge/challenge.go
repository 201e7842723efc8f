// Package challenge has the interface that proves the control of a domain.
package challenge

import "context"

// Provider proves the control of a domain.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
