// Package kube is the only package that talks to Kubernetes on behalf of releases: it observes everything that one Rollout depends on, carries out
// single actions, commits the status and records Kubernetes Events.
//
// It decides nothing: the observed state goes to the planner as values, and decisions come back as actions. The observed state may come from
// watches, which may be late; docs/adr/0009-reads-from-watches.md explains why that is safe.
//
// It stands on three packages that do not import it: cache (watches), apiclient (transport, errors and discovery) and policies (the check of the
// admission policies).
//
// Invariant: no write lands on an object that has changed since the snapshot, and no write depends on a watch alone after a call of
// [Client.ConfirmDecision].
package kube
