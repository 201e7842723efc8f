// Package apiclient has the properties of the API server that every call meets: the transport, the deadline, the errors, the permissions and the
// discovery of kinds.
//
// It decides nothing about a release, and reads and writes none of its objects: package kube does.
//
// Invariant: no request is sent after its deadline, and an answer 429 comes back to the caller at once, as an error.
package apiclient
