// Package lego is a client that has no certificate authority.
package lego

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is empty.
const DirectoryURLLetsEncrypt = ""

// Config is the configuration of a client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig returns an empty configuration.
func NewConfig(any) *Config { return &Config{} }

// Client refuses.
type Client struct {
	Challenge    challenges
	Registration registrations
	Certificate  certificates
}

// NewClient refuses.
func NewClient(*Config) (*Client, error) { return nil, errors.ErrUnsupported }

// CreateCertPool refuses.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, errors.ErrUnsupported }

type challenges struct{}

// SetDNS01Provider refuses.
func (challenges) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return errors.ErrUnsupported
}

// SetHTTP01Provider refuses.
func (challenges) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return errors.ErrUnsupported
}

// SetTLSALPN01Provider refuses.
func (challenges) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return errors.ErrUnsupported
}

type registrations struct{}

// Register refuses.
func (registrations) Register(context.Context, registration.RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}

// RegisterWithExternalAccountBinding refuses.
func (registrations) RegisterWithExternalAccountBinding(context.Context, registration.RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}

type certificates struct{}

// Obtain refuses.
func (certificates) Obtain(context.Context, certificate.ObtainRequest) (*certificate.Resource, error) {
	return nil, errors.ErrUnsupported
}

// Renew refuses.
func (certificates) Renew(context.Context, certificate.Resource, *certificate.RenewOptions) (*certificate.Resource, error) {
	return nil, errors.ErrUnsupported
}
