// Package challenge is how a domain would be shown to be one's own.
package challenge

import "context"

// Provider shows it.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
