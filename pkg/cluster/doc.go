// Package cluster is the only package that talks to Kubernetes on behalf of releases: it observes everything that one Rollout
// depends on, carries out single actions, commits the status and records Kubernetes Events.
//
// It decides nothing: what it saw goes to the core as values, and what to do comes back as actions. It keeps no informers; what
// it reads is live, but for the presence of the admission policies.
//
// Invariant: no write lands on an object that has changed since the snapshot saw it.
package cluster
