// Package policy has the options of a request for a token.
package policy

// TokenRequestOptions say what a token is for.
type TokenRequestOptions struct{ Scopes []string }
