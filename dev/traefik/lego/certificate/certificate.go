// Package certificate has the types of certificates and of requests for them.
package certificate

import "github.com/go-acme/lego/v5/certcrypto"

// Resource is a certificate with its key.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// ObtainRequest requests a new certificate.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions are the options of a renewal with the same names.
type RenewOptions struct {
	Bundle                  bool
	EmailAddresses          []string
	Profile, PreferredChain string
}
