package rollout

import "sluice.dev/sluice/pkg/api"

// Reasons of the condition Stalled. The planner and package kube write most messages; search for the name of a reason to find its cause in the code.
const (
	// ReasonInvalidSpec: a field of the Rollout, or of an object that it names, has a value that a release cannot use.
	ReasonInvalidSpec api.Reason = "InvalidSpec"
	// ReasonUnsupported: Sluice does not carry out a field for this kind of workload or style.
	ReasonUnsupported api.Reason = "Unsupported"
	// ReasonForbidden: the API server denies the executor a request that the release needs.
	ReasonForbidden api.Reason = "Forbidden"
	// ReasonUnreadable: the API server has answered requests for a kind with errors for a while.
	ReasonUnreadable api.Reason = "Unreadable"
	// ReasonAdmissionPolicyMissing: no policy or webhook holds a new version. It does not stop the release.
	ReasonAdmissionPolicyMissing api.Reason = "AdmissionPolicyMissing"
	// ReasonWorkloadMissing: the workload that the Rollout names does not exist.
	ReasonWorkloadMissing api.Reason = "WorkloadMissing"
	// ReasonWorkloadConflict: another Rollout names the same workload.
	ReasonWorkloadConflict api.Reason = "WorkloadConflict"
	// ReasonServiceMissing: a Service that the Rollout names does not exist.
	ReasonServiceMissing api.Reason = "ServiceMissing"
	// ReasonStableUnreachable: a stable Service reaches no ready pod of the stable version.
	ReasonStableUnreachable api.Reason = "StableUnreachable"
	// ReasonEndpointsDropped: pods of other workloads would get no requests through a stable Service.
	ReasonEndpointsDropped api.Reason = "EndpointsDropped"
	// ReasonFullStep: a step asks for less than all pods and all requests, and would replace the last pod of the stable version.
	ReasonFullStep api.Reason = "FullStep"
	// ReasonScriptMissing: no Lua script is known for a kind of gateway object.
	ReasonScriptMissing api.Reason = "ScriptMissing"
	// ReasonRouteMissing: a gateway object that the Rollout names does not exist.
	ReasonRouteMissing api.Reason = "RouteMissing"
	// ReasonRouteUnsupported: the script of a gateway object cannot express a step, has failed, or has a result that would route wrongly.
	ReasonRouteUnsupported api.Reason = "RouteUnsupported"
	// ReasonRouteRejected: the API server does not accept a gateway object as its script renders it.
	ReasonRouteRejected api.Reason = "RouteRejected"
	// ReasonRouteNotAllowed: the owner of a gateway object that belongs to no namespace does not allow releases of this namespace to change it.
	ReasonRouteNotAllowed api.Reason = "RouteNotAllowed"
	// ReasonTrafficRoutingMissing: the TrafficRouting that the Rollout names does not exist, or is being deleted.
	ReasonTrafficRoutingMissing api.Reason = "TrafficRoutingMissing"
	// ReasonNameConflict: the canary Deployment or Service cannot be created, because an object of that name does not belong to this release.
	ReasonNameConflict api.Reason = "NameConflict"
	// ReasonRouteConflict: another client keeps writing a gateway object.
	ReasonRouteConflict api.Reason = "RouteConflict"
	// ReasonWorkloadPaused: the owner has paused the workload.
	ReasonWorkloadPaused api.Reason = "WorkloadPaused"
	// ReasonRejected: an approver has rejected the step.
	ReasonRejected api.Reason = "Rejected"
	// ReasonProgressDeadlineExceeded: a step was not ready in time.
	ReasonProgressDeadlineExceeded api.Reason = "ProgressDeadlineExceeded"
	// ReasonStableMissing: the revision of the stable version is gone, so a release cannot be rolled back.
	ReasonStableMissing api.Reason = "StableMissing"
	// ReasonNewVersionRefused: the workload has a third version in the middle of a blue-green release.
	ReasonNewVersionRefused api.Reason = "NewVersionRefused"
	// ReasonAnalysisTemplateMissing: an analysis template that the Rollout names does not exist.
	ReasonAnalysisTemplateMissing api.Reason = "AnalysisTemplateMissing"
	// ReasonAnalysisInvalid: an analysis template or its arguments are wrong.
	ReasonAnalysisInvalid api.Reason = "AnalysisInvalid"
	// ReasonAnalysisFailed: the metrics of the new version have failed.
	ReasonAnalysisFailed api.Reason = "AnalysisFailed"
	// ReasonAnalysisInconclusive: the metrics do not decide, so a person must.
	ReasonAnalysisInconclusive api.Reason = "AnalysisInconclusive"
	// ReasonAnalysisStale: no analyzer has written a measurement in time.
	ReasonAnalysisStale api.Reason = "AnalysisStale"
)

// Reasons of the condition StableAtRisk: an object that stable pods need is gone, or a tool may delete it.
const (
	ReasonNeedGone     api.Reason = "NeedGone"
	ReasonNeedPrunable api.Reason = "NeedPrunable"
)

// ReasonPolicyOfStable is the reason of the condition CanaryUncovered: a policy covers the stable version only, and the release does not copy it.
const ReasonPolicyOfStable api.Reason = "PolicyOfStable"

// ReasonMatchesDropped is the reason of the condition of that name: a gateway object leaves out matches of a step that another one expresses.
const ReasonMatchesDropped api.Reason = "MatchesDropped"

// ReasonStickySessions is the reason of the condition SessionsTorn: a gateway would keep users with one pod, and shares each request between the versions.
const ReasonStickySessions api.Reason = "StickySessions"

// Problem is a condition that a person must fix before a release goes on.
type Problem struct {
	Reason  api.Reason
	Message string
	// Unknown: the executor could not read or write an object, so it cannot conclude anything from the object's absence.
	Unknown bool
	// Route is the gateway object of the problem; the release does not go on there. If the executor cannot read the object or its scripts, it does not
	// restore the object either. It may restore everything else. Zero: the problem may concern everything.
	Route Ref
	// FromApply: the problem occurred while the executor acted. Without a Route, the planner decides nothing more in this run.
	FromApply bool
	// Warning: the status shows the problem, and the release goes on.
	Warning bool
}

// NeedsPolling reports whether the executor gets no event when a person has fixed the problem. The executor then reads the objects again after a
// while.
func (p Problem) NeedsPolling() bool {
	return p.Unknown || !p.Warning && (p.Reason == ReasonForbidden || p.Reason == ReasonUnreadable)
}

// KubeEvent is a Kubernetes Event to record.
type KubeEvent struct {
	Warning         bool
	Reason, Message string
}
