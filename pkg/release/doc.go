// Package release answers the questions of front ends about a release. It describes the state of a release and its steps, and says whether a user can
// approve it. It also says which commands are possible, why others are not, and how each command ended. It reads and writes no objects: callers pass
// the Rollout and send the patches.
//
// Ask [StandingOf] where a release stands, and [InState] whether it is in StatePaused. A pause that ends by itself stands as Progressing, and
// spec.strategy.paused as Stuck. [PauseToApprove] says whether a step may be approved. [NewCommand] says whether a release may be aborted, retried,
// promoted or approved by force, and [NewJump] whether it may jump. ApprovalPatch, CommandPatch and JumpPatch make what the caller sends.
//
// Its one invariant: what it allows is for the stay at a step that its caller has seen, and for no later one.
package release
