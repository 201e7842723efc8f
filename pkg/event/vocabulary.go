package event

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Kind is a type of event and its occasion.
type Kind struct {
	Noun, Verb string
	// When is a sentence for readers of the documentation.
	When string
	// Cause is the cause of the event; empty for an answer to an approval.
	Cause Cause

	// to and reasons select transitions: those to this state, for one of these reasons, or for any reason if reasons is empty.
	to      rollout.State
	reasons []string
}

// Type returns the event attribute "type".
func (k Kind) Type() string { return TypeOf(k.Noun, k.Verb) }

// Cause is the cause of an event.
type Cause string

// Causes of events.
const (
	// CauseWorkload: a user changed the workload.
	CauseWorkload Cause = "Workload"
	// CauseRollout: a user changed the Rollout's spec or deleted the Rollout.
	CauseRollout Cause = "Rollout"
	// CauseApproval: an approver decided.
	CauseApproval Cause = "Approval"
	// CauseCommand: a user gave the release a command.
	CauseCommand Cause = "Command"
	// CauseAnalysis: metrics gave a result.
	CauseAnalysis Cause = "Analysis"
	// CauseTime: a pause is over, or a deadline has passed.
	CauseTime Cause = "Time"
	// CauseProgress: the release reached the state that it waited for.
	CauseProgress Cause = "Progress"
	// CauseFleet: the hub of a fleet decided.
	CauseFleet Cause = "Fleet"
	// CauseProblem: an object is missing, was refused or blocks the release.
	CauseProblem Cause = "Problem"
)

// Vocabulary lists every type of event that Sluice sends.
func Vocabulary() []Kind { return append(RolloutVocabulary(), FleetVocabulary()...) }

// RolloutVocabulary lists every type of event that Sluice sends about Rollouts.
func RolloutVocabulary() []Kind {
	return []Kind{
		{Noun: "rollout", Verb: "started", Cause: CauseWorkload, to: rollout.StateInitializing,
			When: "The workload has a new version. Sluice holds it and begins the release."},
		{Noun: "rollout", Verb: "promoted", Cause: CauseProgress, to: rollout.StateCompleted,
			When: "All steps are done and approved. The new version replaces the stable one."},
		{Noun: "rollout", Verb: "finalising", Cause: CauseProgress, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseSuccess)},
			When: "The release succeeds. The executor restores traffic, Services and workload to their normal form."},
		{Noun: "rollout", Verb: "superseded", Cause: CauseWorkload, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseContinuous), string(api.FinaliseSuperseded), string(api.FinaliseRollbackInBatch)},
			When: "A newer version replaces the one under way, or the stable version replaces it in batches. This release ends, and rollout.started follows."},
		{Noun: "rollout", Verb: "canceling", Cause: CauseWorkload, to: rollout.StateFinalising,
			reasons: []string{string(api.FinaliseRollback), string(api.FinaliseWorkloadGone)},
			When:    "The workload was rolled back or deleted. The executor cancels the release. It restores the traffic before it removes pods."},
		{Noun: "rollout", Verb: "recalled", Cause: CauseFleet, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseWithdrawn)},
			When: "The hub of the fleet has withdrawn the version that all pods run. The workload goes back to the version before, without steps."},
		{Noun: "rollout", Verb: "withdrawn", Cause: CauseRollout, to: rollout.StateFinalising,
			reasons: []string{string(api.FinaliseDisabled), string(api.FinaliseDeleting)},
			When:    "The Rollout was disabled or deleted during a release. The release ends early."},
		{Noun: "rollout", Verb: "aborted", Cause: CauseAnalysis, to: rollout.StateAborted, reasons: []string{"AnalysisFailed"},
			When: "Metrics failed. All traffic goes back to the stable version, and the change stays held. data.message names the metrics and the cause."},
		{Noun: "rollout", Verb: "expired", Cause: CauseTime, to: rollout.StateAborted, reasons: []string{string(rollout.ReasonProgressDeadlineExceeded)},
			When: "A step was not ready within its progressDeadlineSeconds, and onDeadline is Abort. All traffic goes back to the stable version, and the change stays held. data.message says which condition was not met."},
		{Noun: "rollout", Verb: "stopped", Cause: CauseCommand, to: rollout.StateAborted,
			When: "A user, or the hub of a fleet, aborted the release. All traffic goes back to the stable version, and the change stays held. data.actor says who."},
		{Noun: "rollout", Verb: "retried", Cause: CauseCommand, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseRetry)},
			When: "A user retried an aborted release. The executor deletes its remaining objects, and rollout.started follows."},
		{Noun: "rollout", Verb: "completed", Cause: CauseProgress, to: rollout.StateIdle, reasons: []string{"Completed"},
			When: "The release has succeeded, and the executor has cleaned up after it."},
		{Noun: "rollout", Verb: "canceled", Cause: CauseProgress, to: rollout.StateIdle, reasons: []string{"Canceled", "Withdrawn"},
			When: "The release was cancelled, or its version was withdrawn, and the executor has cleaned up after it."},
		{Noun: "rollout", Verb: "disabled", Cause: CauseRollout, to: rollout.StateDisabled,
			When: "The Rollout is disabled. From now on, its workload is unmanaged: changes roll out at once."},
		{Noun: "rollout", Verb: "enabled", Cause: CauseRollout, to: rollout.StateIdle, reasons: []string{"Enabled"},
			When: "The Rollout is enabled again."},
		{Noun: "rollout", Verb: "deleted", Cause: CauseRollout, to: rollout.StateTerminated,
			When: "The Rollout is being deleted, and no release is under way any more."},
		{Noun: "rollout", Verb: "changed", Cause: CauseProgress,
			When: "The Rollout is in a state that the sending version of Sluice does not know. data.to names the state."},

		{Noun: "step", Verb: "started", Cause: CauseProgress, to: rollout.StateBeforeUpgrade, reasons: []string{"StepStarted"},
			When: "A step begins."},
		{Noun: "step", Verb: "jumped", Cause: CauseCommand, to: rollout.StateBeforeUpgrade, reasons: []string{"Jumped"},
			When: "A user set nextStepIndex. The release goes on with that step."},
		{Noun: "step", Verb: "restarted", Cause: CauseRollout, to: rollout.StateBeforeUpgrade, reasons: []string{"PlanChanged"},
			When: "A user edited the steps. The current step starts over with the new plan."},
		{Noun: "step", Verb: "upgrading", Cause: CauseProgress, to: rollout.StateUpgrade,
			When: "The step adds pods of the new version."},
		{Noun: "step", Verb: "upgraded", Cause: CauseProgress, to: rollout.StateTrafficRouting,
			When: "The pods of the step are ready. Traffic comes next."},
		{Noun: "step", Verb: "paused", Cause: CauseProgress, to: rollout.StatePaused,
			When: "The release has reached the step, and waits for an approval or for the end of the pause."},
		{Noun: "step", Verb: "approved", Cause: CauseApproval, to: rollout.StateReady, reasons: []string{"Approved"},
			When: "A user, a program or metrics approved the step. data.actor says who."},
		{Noun: "step", Verb: "elapsed", Cause: CauseTime, to: rollout.StateReady, reasons: []string{"PauseOver"},
			When: "The pause of the step is over."},
		{Noun: "step", Verb: "ready", Cause: CauseProgress, to: rollout.StateReady, reasons: []string{"LastStep"},
			When: "The last step has all replicas and needs no approval."},

		{Noun: "traffic", Verb: "routed", Cause: CauseProgress, to: rollout.StateAnalysis,
			When: "The gateway routes as the step says. A step without traffic has this event too."},
		{Noun: "traffic", Verb: "restored", Cause: CauseProgress, to: rollout.StateTrafficRestored,
			When: "The executor has removed the release from the gateway. The gateway routes as before the release."},

		{Noun: "failure", Verb: "raised", Cause: CauseProblem, to: rollout.StateStalled,
			When: "A problem that a person must solve stalls the release, or will stall the next one. data.reason names it, and data.message says what to do. Sluice sends a new event when the problem changes."},
		{Noun: "failure", Verb: "resolved", Cause: CauseProgress,
			When: "The problem that failure.raised reported is gone."},

		{Noun: "analysis", Verb: "measured",
			When: "The analyzer has measured a metric. data.outcome is the outcome, and data.queries are the queries."},
		{Noun: "analysis", Verb: "verdict", Cause: CauseAnalysis,
			When: "The verdict of the metrics about a step or a release has changed. data.from and data.to are the phases of the analysis."},

		DecidedKind(),
	}
}

// DecidedKind is the type of the answers to events about Rollouts and FleetRollouts.
func DecidedKind() Kind {
	return Kind{Noun: "approval", Verb: "decided",
		When: "Sluice has accepted or refused an approval, or the release of a fleet, from outside. This event answers the event whose id is in the attribute causationid."}
}

// KindOf returns the one kind of event for a transition.
func KindOf(t api.Transition) Kind {
	verb, unknown := "", Kind{}
	if rollout.State(t.From) == rollout.StateStalled {
		verb = "resolved"
	}
	for _, k := range RolloutVocabulary() {
		switch {
		case k.Verb == "changed":
			unknown = k
		case verb != "" && k.Verb == verb,
			verb == "" && k.to != "" && string(k.to) == t.To && (k.reasons == nil || slices.Contains(k.reasons, t.Reason)):
			return k
		}
	}
	return unknown
}
