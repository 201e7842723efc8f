// Package registration has the options to create an account.
package registration

// RegisterOptions are the options of a new account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions are the options of an account that is bound to an external one.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
