// Package rollout is the model of a release. It contains the parsed Rollout (Spec), the observed cluster, the actions and the states of a release,
// and the problems that stall it. It decides nothing.
//
// Its one invariant: every part of Sluice uses these types for a release, and no second form of them.
package rollout
