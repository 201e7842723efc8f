// Package option has the options of a client that refuses.
package option

import "golang.org/x/oauth2/google"

// ClientOption is an option that nothing reads.
type ClientOption struct{}

// ServiceAccount is a kind of credentials.
const ServiceAccount = "service_account"

// WithScopes makes an option.
func WithScopes(...string) ClientOption { return ClientOption{} }

// WithAuthCredentialsFile makes an option.
func WithAuthCredentialsFile(_, _ string) ClientOption { return ClientOption{} }

// WithCredentials makes an option.
func WithCredentials(*google.Credentials) ClientOption { return ClientOption{} }
