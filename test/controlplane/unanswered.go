package controlplane

import (
	"slices"
	"strings"
)

// Unanswered reports whether an error, also one that kubectl wrote, leaves open what the API server did: it was too busy to answer in time, or the
// connection was lost.
func Unanswered(err error) bool {
	return err != nil && slices.ContainsFunc([]string{
		"request did not complete within requested timeout", "etcdserver: request timed out",
		"http2: client connection lost", "INTERNAL_ERROR; received from peer", "net/http: TLS handshake timeout",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}
