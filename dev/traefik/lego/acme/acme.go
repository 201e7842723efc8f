// Package acme has the stored form of accounts.
package acme

// Account is an account at a certificate authority.
type Account struct{}

// ExtendedAccount is an account with its location.
type ExtendedAccount struct {
	Account
	Location string
}
