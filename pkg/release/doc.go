// Package release answers what front ends ask about a release: where it stands, what its steps do, whether it may be approved, which commands are possible
// and why others are not, and what came of them. It reads and writes nothing: callers bring the Rollout and send the patches.
//
// Its one invariant: what it allows is for the stay at a step that its caller has seen, and for no later one.
package release
