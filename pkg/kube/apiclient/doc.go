// Package apiclient has the properties of the API server that every call meets: transport, deadline, errors,
// permissions and the discovery of kinds.
//
// It decides nothing about a release. Package kube reads and writes the objects of a release.
//
// Invariant: no request is sent after its deadline. The caller gets an answer 429 at once, as an error.
package apiclient
