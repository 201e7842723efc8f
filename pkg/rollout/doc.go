// Package rollout is the model of a release: the parsed Rollout (Spec), what is observed of the world, the actions that a release takes, the states that it
// goes through, and the problems that hold it. It decides nothing.
//
// Its one invariant: every part of Sluice that speaks of a release uses these types, and no second form of them.
package rollout
