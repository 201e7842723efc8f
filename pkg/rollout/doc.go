// Package rollout is the core of Sluice: it decides what one release does next.
//
// [Plan] is a pure function from what was seen of the world to a [Decision]: the status to commit, the actions to take in
// order, and when to look again. It knows no client, no context, no clock and no logger; shells around it observe, act and
// commit. It is not a controller, and it never remembers: whatever it must know next time is in the Rollout's status.
//
// Invariant: no decision raises the exposure of a new version beyond what the status, as already committed, allows.
package rollout
