// Package dns knows no provider.
package dns

import (
	"errors"

	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName refuses.
func NewDNSChallengeProviderByName(string) (challenge.Provider, error) {
	return nil, errors.ErrUnsupported
}
