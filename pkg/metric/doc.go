// Package metric queries Prometheus on behalf of users who choose the address and the query. It measures and does not judge: package analysis judges
// the answer, and the caller reads Secrets.
//
// Its one invariant holds for any behaviour of a provider. A query ends by its deadline, with a result or with an *Error. It keeps at most MaxBody
// bytes, and connects only to hosts that the operator has allowed.
package metric
