package event

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Kind is one word of the vocabulary: a type of event, and when it is sent.
type Kind struct {
	Noun, Verb string
	// When is a sentence for readers of the documentation.
	When string
	// Cause is what it comes of; empty for an answer to an approval.
	Cause Cause

	// to and reasons say which transitions it tells of: those to this state, for one of these reasons or for any.
	to      rollout.State
	reasons []string
}

// Type is the event attribute "type".
func (k Kind) Type() string { return TypeOf(k.Noun, k.Verb) }

// Cause says what an event came of.
type Cause string

// Causes of events.
const (
	// CauseWorkload: somebody changed the workload.
	CauseWorkload Cause = "Workload"
	// CauseRollout: somebody changed the Rollout's spec, or deleted it.
	CauseRollout Cause = "Rollout"
	// CauseApproval: somebody approved.
	CauseApproval Cause = "Approval"
	// CauseCommand: somebody told the release to go elsewhere.
	CauseCommand Cause = "Command"
	// CauseAnalysis: metrics have spoken.
	CauseAnalysis Cause = "Analysis"
	// CauseTime: a pause is over, or a deadline has passed.
	CauseTime Cause = "Time"
	// CauseProgress: what the release waited for has come true.
	CauseProgress Cause = "Progress"
	// CauseProblem: something is missing, refused or in the way.
	CauseProblem Cause = "Problem"
)

// Vocabulary lists every type of event that Sluice sends.
func Vocabulary() []Kind {
	return []Kind{
		{Noun: "rollout", Verb: "started", Cause: CauseWorkload, to: rollout.StateInitializing,
			When: "A new version of the workload is held and its release begins."},
		{Noun: "rollout", Verb: "promoted", Cause: CauseProgress, to: rollout.StateCompleted,
			When: "All steps are done; the new version is agreed to and takes over."},
		{Noun: "rollout", Verb: "finalising", Cause: CauseProgress, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseSuccess)},
			When: "The release ends well: traffic, Services and workload get their normal form back."},
		{Noun: "rollout", Verb: "superseded", Cause: CauseWorkload, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseContinuous), string(api.FinaliseSuperseded), string(api.FinaliseRollbackInBatch)},
			When: "A newer version replaces the one under way, or the stable one in batches: this release ends, and rollout.started follows."},
		{Noun: "rollout", Verb: "canceling", Cause: CauseWorkload, to: rollout.StateFinalising,
			reasons: []string{string(api.FinaliseRollback), string(api.FinaliseWorkloadGone)},
			When:    "The workload was rolled back, or deleted: the release is taken back, traffic first."},
		{Noun: "rollout", Verb: "withdrawn", Cause: CauseRollout, to: rollout.StateFinalising,
			reasons: []string{string(api.FinaliseDisabled), string(api.FinaliseDeleting)},
			When:    "The Rollout was disabled or deleted during a release, which ends early."},
		{Noun: "rollout", Verb: "aborted", Cause: CauseAnalysis, to: rollout.StateAborted, reasons: []string{"AnalysisFailed"},
			When: "Metrics failed: all traffic goes back to the stable version, and the change stays held. data.message says which and why."},
		{Noun: "rollout", Verb: "expired", Cause: CauseTime, to: rollout.StateAborted, reasons: []string{string(rollout.ReasonProgressDeadlineExceeded)},
			When: "A step was not ready within its progressDeadlineSeconds, and onDeadline is Abort: all traffic goes back to the stable version, and the change stays held. data.message says which condition was not met."},
		{Noun: "rollout", Verb: "stopped", Cause: CauseCommand, to: rollout.StateAborted,
			When: "Somebody aborted the release: all traffic goes back to the stable version, and the change stays held. data.actor says who."},
		{Noun: "rollout", Verb: "retried", Cause: CauseCommand, to: rollout.StateFinalising, reasons: []string{string(api.FinaliseRetry)},
			When: "Somebody retried an aborted release: the executor removes its remaining objects, and rollout.started follows."},
		{Noun: "rollout", Verb: "completed", Cause: CauseProgress, to: rollout.StateIdle, reasons: []string{"Completed"},
			When: "The release has ended well and nothing of it is left."},
		{Noun: "rollout", Verb: "canceled", Cause: CauseProgress, to: rollout.StateIdle, reasons: []string{"Canceled"},
			When: "The release was taken back and nothing of it is left."},
		{Noun: "rollout", Verb: "disabled", Cause: CauseRollout, to: rollout.StateDisabled,
			When: "The Rollout is disabled: changes of the workload go out at once from now on."},
		{Noun: "rollout", Verb: "enabled", Cause: CauseRollout, to: rollout.StateIdle, reasons: []string{"Enabled"},
			When: "The Rollout is enabled again."},
		{Noun: "rollout", Verb: "deleted", Cause: CauseRollout, to: rollout.StateTerminated,
			When: "The Rollout is being deleted and no release is under way any more."},
		{Noun: "rollout", Verb: "changed", Cause: CauseProgress,
			When: "The Rollout is in another state, for which the version of Sluice that sends this has no word. data.to names it."},

		{Noun: "step", Verb: "started", Cause: CauseProgress, to: rollout.StateBeforeUpgrade, reasons: []string{"StepStarted"},
			When: "A step begins."},
		{Noun: "step", Verb: "jumped", Cause: CauseCommand, to: rollout.StateBeforeUpgrade, reasons: []string{"Jumped"},
			When: "Somebody set nextStepIndex; the release goes on with that step."},
		{Noun: "step", Verb: "restarted", Cause: CauseRollout, to: rollout.StateBeforeUpgrade, reasons: []string{"PlanChanged"},
			When: "The steps were edited; the current one starts over by the new plan."},
		{Noun: "step", Verb: "upgrading", Cause: CauseProgress, to: rollout.StateUpgrade,
			When: "Pods of the new version are being made."},
		{Noun: "step", Verb: "upgraded", Cause: CauseProgress, to: rollout.StateTrafficRouting,
			When: "The pods of the step are ready; traffic comes next."},
		{Noun: "step", Verb: "paused", Cause: CauseProgress, to: rollout.StatePaused,
			When: "The step is reached and waits: for an approval, or for its pause to pass."},
		{Noun: "step", Verb: "approved", Cause: CauseApproval, to: rollout.StateReady, reasons: []string{"Approved"},
			When: "Somebody approved the step, by an event or with kubectl. data.actor says who."},
		{Noun: "step", Verb: "elapsed", Cause: CauseTime, to: rollout.StateReady, reasons: []string{"PauseOver"},
			When: "The pause of the step has passed."},
		{Noun: "step", Verb: "ready", Cause: CauseProgress, to: rollout.StateReady, reasons: []string{"LastStep"},
			When: "The last step has all replicas and needs no approval."},

		{Noun: "traffic", Verb: "routed", Cause: CauseProgress, to: rollout.StateAnalysis,
			When: "The gateway routes as the step says. A step without traffic passes through this too."},
		{Noun: "traffic", Verb: "restored", Cause: CauseProgress, to: rollout.StateTrafficRestored,
			When: "Nothing of the release is left on the gateway: it routes as before the release."},

		{Noun: "failure", Verb: "raised", Cause: CauseProblem, to: rollout.StateStalled,
			When: "Something that a person must change holds the release, or will hold the next one. data.reason names it and data.message says what to do. Sent again when the problem becomes another one."},
		{Noun: "failure", Verb: "resolved", Cause: CauseProgress,
			When: "The problem that failure.raised reported is gone."},

		{Noun: "analysis", Verb: "measured",
			When: "A metric was measured. data.outcome has the result, and data.queries the queries."},
		{Noun: "analysis", Verb: "verdict", Cause: CauseAnalysis,
			When: "The verdict of the metrics about a step or a release has changed. data.from and data.to are the phases of the analysis."},

		{Noun: "approval", Verb: "decided",
			When: "An approval from outside was accepted or refused. It answers the event whose id is in the attribute causationid."},
	}
}

// KindOf is the one type that tells of a transition.
func KindOf(t api.Transition) Kind {
	verb, unknown := "", Kind{}
	if rollout.State(t.From) == rollout.StateStalled {
		verb = "resolved"
	}
	for _, k := range Vocabulary() {
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
