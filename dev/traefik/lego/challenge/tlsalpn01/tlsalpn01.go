// Package tlsalpn01 is the challenge by a protocol of TLS.
package tlsalpn01

import (
	"errors"
	"time"
)

// ACMETLS1Protocol is the protocol, of RFC 8737.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeOption has no effect.
type ChallengeOption struct{}

// SetDelay has no effect.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }

// ChallengeBlocks refuses.
func ChallengeBlocks(string, string) (certificate, key []byte, err error) {
	return nil, nil, errors.ErrUnsupported
}
