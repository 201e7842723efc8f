// Package metric asks Prometheus, on behalf of people who choose the address and the query themselves. It measures and does not
// judge: what an answer means for a release is the matter of package analysis, and reading Secrets is the caller's. Its one
// invariant: whatever a provider does, a query ends by its deadline, with a result or with an *Error, after having kept at most
// MaxBody bytes, and without a connection to anywhere that the operator has not allowed.
package metric
