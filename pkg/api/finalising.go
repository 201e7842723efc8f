package api

// FinaliseReason says why a release is being finalised.
type FinaliseReason string

// Reasons to finalise a release.
const (
	FinaliseSuccess  FinaliseReason = "Success"
	FinaliseRollback FinaliseReason = "Rollback"
	// FinaliseContinuous: a newer version replaces the one under way.
	FinaliseContinuous FinaliseReason = "Continuous"
	// FinaliseSuperseded: a newer version came while the release was ending, and the workload may have begun to run the version of that ending.
	FinaliseSuperseded FinaliseReason = "Superseded"
	// FinaliseRollbackInBatch: the workload goes back to its stable version step by step.
	FinaliseRollbackInBatch FinaliseReason = "RollbackInBatch"
	// FinaliseRetry: an aborted release begins again.
	FinaliseRetry FinaliseReason = "Retry"
	// FinaliseAborted: metrics failed or a user aborted it; the change stays held.
	FinaliseAborted FinaliseReason = "Aborted"
	// FinaliseWithdrawn: the fleet has withdrawn the version that all pods run, and the workload goes back to an earlier one.
	FinaliseWithdrawn FinaliseReason = "Withdrawn"
	FinaliseDisabled  FinaliseReason = "RolloutDisabled"
	FinaliseDeleting  FinaliseReason = "RolloutDeleting"
	// FinaliseWorkloadGone: the workload was deleted during its release.
	FinaliseWorkloadGone FinaliseReason = "WorkloadDeleted"
)

// FinalisingStep is one task of finalising a release. Their order depends on the style
// and on the reason.
type FinalisingStep string

// Tasks of finalising. The values of the first two carry the prefix of OpenKruise's Go
// constants; programs compare them literally.
const (
	FinalisingRouteTrafficToNew      FinalisingStep = "FinalisingStepRouteTrafficToNew"
	FinalisingRouteTrafficToStable   FinalisingStep = "FinalisingStepRouteTrafficToStable"
	FinalisingRestoreStableService   FinalisingStep = "RestoreStableService"
	FinalisingRemoveCanaryService    FinalisingStep = "RemoveCanaryService"
	FinalisingResumeWorkload         FinalisingStep = "ResumeWorkload"
	FinalisingReleaseWorkloadControl FinalisingStep = "ReleaseWorkloadControl"
	FinalisingEnd                    FinalisingStep = "END"
	FinalisingWaitEndless            FinalisingStep = "WaitEndless"
)
