// Package planner decides what one release does next.
//
// [Plan] is a pure function from what was observed to a [rollout.Decision]: the status to commit, the actions to take in order, and when to look again. It knows
// no client, no context, no clock and no logger. The executor observes, acts and commits. The planner never remembers: whatever it must know next time is in the
// Rollout's status.
//
// Its one invariant: no decision raises the exposure of a new version beyond what the status, as already committed, allows.
package planner
