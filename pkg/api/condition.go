package api

// ConditionType is the type of a condition of a Rollout.
type ConditionType string

// Types of conditions. Stalled, RouteConflict, ReplicasAboveStep, StableAtRisk, CanaryUncovered, SessionsTorn and MatchesDropped are Sluice's own,
// the others are OpenKruise's.
const (
	ConditionProgressing ConditionType = "Progressing"
	ConditionSucceeded   ConditionType = "Succeeded"
	ConditionTerminating ConditionType = "Terminating"
	// ConditionStalled is True while something that a person must change stops the release.
	ConditionStalled ConditionType = "Stalled"
	// ConditionRouteConflict is True while another client keeps writing an object that the release needs.
	ConditionRouteConflict ConditionType = "RouteConflict"
	// ConditionReplicasAboveStep is True while the workload runs more pods of the new version than the step asks for: the workload was
	// scaled or lost pods, or the release has jumped back. The executor does not replace these pods.
	ConditionReplicasAboveStep ConditionType = "ReplicasAboveStep"
	// ConditionStableAtRisk is True while pods of the stable version need a ConfigMap, a Secret or a ServiceAccount that is gone, or that a tool
	// may delete because the new version does not need it. It does not hold the release.
	ConditionStableAtRisk ConditionType = "StableAtRisk"
	// ConditionCanaryUncovered is True while policies, such as an AuthorizationPolicy, cover the stable version and not the canary. It does not hold the
	// release.
	ConditionCanaryUncovered ConditionType = "CanaryUncovered"
	// ConditionSessionsTorn is True while a gateway keeps users with one pod, and steps with a share of the traffic send these users to both versions. It
	// does not hold the release.
	ConditionSessionsTorn ConditionType = "SessionsTorn"
	// ConditionMatchesDropped is True while a gateway object leaves out matches of a step that another one of the release expresses. It does not hold the
	// release.
	ConditionMatchesDropped ConditionType = "MatchesDropped"
)

// Reason says in one word why a condition has its status.
type Reason string

// Reasons of the condition Progressing.
const (
	ReasonInitializing Reason = "Initializing"
	ReasonInRolling    Reason = "InRolling"
	ReasonFinalising   Reason = "Finalising"
	ReasonCompleted    Reason = "Completed"
	ReasonCancelling   Reason = "Cancelling"
	ReasonPaused       Reason = "Paused"
	// ReasonAborted: traffic is on stable, and the canary is scaled away after a delay.
	ReasonAborted Reason = "Aborted"
	// ReasonFailed: the progress deadline has passed.
	ReasonFailed Reason = "Failed"
)

// ReasonMorePods is the reason of the condition ReplicasAboveStep.
const ReasonMorePods Reason = "MorePods"

// ReasonInTerminating is a reason of the condition Terminating; the other one is ReasonCompleted.
const ReasonInTerminating Reason = "InTerminating"
