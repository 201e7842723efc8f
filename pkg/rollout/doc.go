// Package rollout is the model of a release: the parsed Rollout (Spec), the observed state of the world, the actions of a release, its states, and
// the problems that stop it. It decides nothing.
//
// Its one invariant: every part of Sluice that speaks of a release uses these types, and no second form of them.
package rollout
