// Package dns01 is the challenge by a record of DNS.
package dns01

import (
	"strings"
	"time"
)

// Options are the options of a DNS client.
type Options struct{ RecursiveNameservers []string }

// Client is a DNS client that sends no requests.
type Client struct{}

// NewClient returns such a client.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient has no effect.
func SetDefaultClient(*Client) {}

// ChallengeOption has no effect.
type ChallengeOption struct{}

// LazyCondOption has no effect.
func LazyCondOption(bool, func() ChallengeOption) ChallengeOption { return ChallengeOption{} }

// CombineOptions has no effect.
func CombineOptions(...ChallengeOption) ChallengeOption { return ChallengeOption{} }

// CondOptions has no effect.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return ChallengeOption{} }

// DisableAuthoritativeNssPropagationRequirement has no effect.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// DisableRecursiveNSsPropagationRequirement has no effect.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// PropagationWait has no effect.
func PropagationWait(time.Duration, bool) ChallengeOption { return ChallengeOption{} }

// UnFqdn cuts the dot off the end of a name.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
