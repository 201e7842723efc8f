// Package sigv4 refuses to sign requests to AWS.
package sigv4

import (
	"errors"
	"net/http"
)

// SigV4Config cannot be configured.
type SigV4Config struct{}

// Validate refuses.
func (*SigV4Config) Validate() error { return errors.ErrUnsupported }

// UnmarshalYAML refuses.
func (*SigV4Config) UnmarshalYAML(func(any) error) error { return errors.ErrUnsupported }

// NewSigV4RoundTripper refuses.
func NewSigV4RoundTripper(*SigV4Config, http.RoundTripper) (http.RoundTripper, error) {
	return nil, errors.ErrUnsupported
}
