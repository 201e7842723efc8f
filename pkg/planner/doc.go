// Package planner decides the next actions of one release.
//
// [Plan] is a pure function of the observed state. It returns a [rollout.Decision]: the status to commit, the actions in order, and the time of the
// next run. It uses no client, no context, no clock and no logger. The executor observes, acts and commits. The planner keeps no memory between
// calls: everything that it must know next time is in the Rollout's status.
//
// Its one invariant: no decision raises the exposure of a new version beyond the limit of the committed status.
package planner
