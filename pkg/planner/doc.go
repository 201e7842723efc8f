// Package planner decides the next actions of one release.
//
// [Plan] is a pure function from the observed state to a [rollout.Decision]: the status to commit, the actions to take in order, and the time of the
// next look. It has no client, no context, no clock and no logger. The executor observes, acts and commits. The planner remembers nothing: the
// Rollout's status holds all that it needs next time.
//
// Its one invariant: no decision raises the exposure of a new version beyond what the status, as already committed, allows.
package planner
