// Package kube is the only package that talks to Kubernetes on behalf of releases: it observes everything that one Rollout
// depends on, carries out single actions, commits the status and records Kubernetes Events.
//
// It decides nothing: what it saw goes to the core as values, and what to do comes back as actions. What it sees may come from
// watches, which may be late; docs/adr/0009-reads-from-watches.md tells why that is safe.
//
// It stands on three packages that do not know it: cache (watches), apiclient (transport, errors and discovery) and policies (the check of the
// admission policies).
//
// Invariant: no write lands on an object that has changed since the snapshot saw it, and none stands on what only a watch has shown
// once [Client.ConfirmDecision] has been asked.
package kube
