// Package acme is what accounts are stored as.
package acme

// Account is one at a certificate authority.
type Account struct{}

// ExtendedAccount says where it is.
type ExtendedAccount struct {
	Account
	Location string
}
