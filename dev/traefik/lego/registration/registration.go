// Package registration is how accounts would be made.
package registration

// RegisterOptions are those of an account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions are those of one that is known by another name already.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
