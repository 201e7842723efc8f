// Package http01 is the challenge by a file.
package http01

import "time"

// PathPrefix is the path of the challenge files.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption has no effect.
type ChallengeOption struct{}

// SetDelay has no effect.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }
