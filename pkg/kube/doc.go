// Package kube is the only package that talks to Kubernetes on behalf of releases. It observes everything that one
// Rollout depends on, carries out single actions, commits the status and records Kubernetes Events.
//
// It decides nothing: the core gets its observations as values and returns actions. The observations may come from
// watches, which may be late; docs/adr/0009-reads-from-watches.md says why that is safe.
//
// It uses three packages that do not know it. Package cache has the watches; package apiclient has transport, errors
// and discovery; package policies checks the admission policies.
//
// Invariant: no write changes an object that has changed since the snapshot saw it. After [Client.ConfirmDecision], no
// write depends on a state that only a watch has shown.
package kube
