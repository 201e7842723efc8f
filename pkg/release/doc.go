// Package release answers the questions of front ends about a release. It describes the state of a release and its steps, and says whether a user can
// approve it. It also says which commands are possible, why others are not, and how each command ended. It reads and writes no objects: callers pass
// the Rollout and send the patches.
//
// Its one invariant: a permission holds for the stay at a step that the caller has seen, and for no later stay.
package release
