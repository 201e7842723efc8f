package api

// Refusal says in one word why a decision that a user sent was not accepted.
type Refusal string

// Values of Refusal.
const (
	// RefusalMalformed: the event is not an approval, or a field of it is wrong.
	RefusalMalformed Refusal = "Malformed"
	// RefusalUnknownRollout: there is no such Rollout in this cluster.
	RefusalUnknownRollout Refusal = "UnknownRollout"
	// RefusalNotInProgress: no release is under way, or it is ending already.
	RefusalNotInProgress Refusal = "NotInProgress"
	// RefusalNotPaused: the step was not paused yet when the event came in.
	RefusalNotPaused Refusal = "NotPaused"
	// RefusalWrongStep: the release is in another step than the one named.
	RefusalWrongStep Refusal = "WrongStep"
	// RefusalWrongRelease: the release under way is not the one named.
	RefusalWrongRelease Refusal = "WrongRelease"
	// RefusalAlreadyDecided: another client decided about this pause before.
	RefusalAlreadyDecided Refusal = "AlreadyDecided"
	// RefusalExpired: the decision was made before the step paused.
	RefusalExpired Refusal = "Expired"
	// RefusalNotAllowed: the sender may not decide about this Rollout.
	RefusalNotAllowed Refusal = "NotAllowed"
	// RefusalWrongWave: the release of a fleet is in another wave than the one named.
	RefusalWrongWave Refusal = "WrongWave"
	// RefusalBlocked: the version was withdrawn from the fleet, and no user has unblocked it.
	RefusalBlocked Refusal = "Blocked"
	// RefusalWrongPlan: the FleetRollout cannot follow the FleetPlan that is named.
	RefusalWrongPlan Refusal = "WrongPlan"
	// RefusalNotAHub: the cluster is not the hub of a fleet.
	RefusalNotAHub Refusal = "NotAHub"
	// RefusalAnalysisFailed: the analysis of the step has failed, which an approval does not overrule.
	RefusalAnalysisFailed Refusal = "AnalysisFailed"
)
