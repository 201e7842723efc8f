package controlplane

import (
	"slices"
	"strings"
)

// Unanswered reports whether the API server may have carried out a request although the caller got err. The API server
// was too busy to answer in time, or the caller lost the connection. err may hold the output of kubectl.
func Unanswered(err error) bool {
	return err != nil && slices.ContainsFunc([]string{
		"request did not complete within requested timeout", "etcdserver: request timed out",
		"http2: client connection lost", "INTERNAL_ERROR; received from peer", "net/http: TLS handshake timeout",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}
