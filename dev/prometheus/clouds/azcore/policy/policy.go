// Package policy has the options of a request for a token.
package policy

// TokenRequestOptions are the scopes of a token.
type TokenRequestOptions struct{ Scopes []string }
