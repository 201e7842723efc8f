package rollout

import "sluice.dev/sluice/pkg/api"

// Reasons of the condition Held.
const (
	HoldInvalidSpec api.Reason = "InvalidSpec"
	HoldUnsupported api.Reason = "Unsupported"
	HoldForbidden   api.Reason = "Forbidden"
	// HoldUnreadable: the API server has answered with errors about a kind for a while.
	HoldUnreadable      api.Reason = "Unreadable"
	HoldPolicyMissing   api.Reason = "PolicyMissing"
	HoldWorkloadMissing api.Reason = "WorkloadMissing"
	HoldConflict        api.Reason = "Conflict"
	HoldServiceMissing  api.Reason = "ServiceMissing"
	// HoldStableUnreachable: a stable Service reaches no ready pod of the stable version. HoldEndpointsDropped: pods of other workloads would get no
	// requests through it.
	HoldStableUnreachable api.Reason = "StableUnreachable"
	HoldEndpointsDropped  api.Reason = "EndpointsDropped"
	// HoldFullStep: a step asks for less than all pods and all requests, and would replace the last pod of the stable version.
	HoldFullStep      api.Reason = "FullStep"
	HoldScriptMissing api.Reason = "ScriptMissing"
	HoldRouteMissing  api.Reason = "RouteMissing"
	HoldRouteRefused  api.Reason = "RouteRefused"
	// HoldRouteNotAllowed: the owner of a gateway object that belongs to no namespace lets no release of this one shape it.
	HoldRouteNotAllowed api.Reason = "RouteNotAllowed"
	HoldRoutingMissing  api.Reason = "TrafficRoutingMissing"
	HoldForeignObject   api.Reason = "ForeignObject"
	HoldContested       api.Reason = "Contested"
	HoldOwnerPaused     api.Reason = "WorkloadPaused"
	HoldRejected        api.Reason = "Rejected"
	// HoldDeadline: a step was not ready in time.
	HoldDeadline api.Reason = "ProgressDeadlineExceeded"
	// HoldStableMissing: the stable version cannot be given back.
	HoldStableMissing api.Reason = "StableMissing"
	// HoldNewVersion: a blue-green release takes no other version while it is under way.
	HoldNewVersion api.Reason = "NewVersionRefused"
	// HoldAnalysisTemplate and HoldAnalysisInvalid: what is to be measured is missing or wrong.
	HoldAnalysisTemplate api.Reason = "AnalysisTemplateMissing"
	HoldAnalysisInvalid  api.Reason = "AnalysisInvalid"
	// HoldAnalysisFailed and HoldAnalysisInconclusive: metrics ask a person.
	HoldAnalysisFailed       api.Reason = "AnalysisFailed"
	HoldAnalysisInconclusive api.Reason = "AnalysisInconclusive"
	// HoldAnalysisSilent: nobody seems to measure.
	HoldAnalysisSilent api.Reason = "AnalysisSilent"
)

// Reasons of the condition StableAtRisk: an object that stable pods need is gone, or a tool may delete it.
const (
	ReasonNeedGone     api.Reason = "NeedGone"
	ReasonNeedPrunable api.Reason = "NeedPrunable"
)

// ReasonPolicyOfStable is the reason of the condition CanaryUncovered: a policy covers the stable version only, and the release does not copy it.
const ReasonPolicyOfStable api.Reason = "PolicyOfStable"

// ReasonStickySessions is the reason of the condition SessionsTorn: a gateway would keep users with one pod, and shares each request between the versions.
const ReasonStickySessions api.Reason = "StickySessions"

// Problem is something that a person must change before a release goes on.
type Problem struct {
	Reason  api.Reason
	Message string
	// Unknown: something could not be read or written, so that nothing may be concluded from its absence.
	Unknown bool
	// Route is the gateway object that a problem is about, on which the release does not go on. Of a blind one, its own Forbidden, Unreadable or that of
	// the scripts which render it, it does not go back either, and everything else may be given back; zero: everything is in doubt.
	Route Ref
	// FromApply: the problem came up while acting. Without a Route nothing more is decided in this run.
	FromApply bool
	// Warning problems are shown and stop nothing.
	Warning bool
}

// NeedsPolling reports whether no event tells the executor that a person has mended the problem. The executor then reads the objects again after a while.
func (p Problem) NeedsPolling() bool {
	return p.Unknown || !p.Warning && (p.Reason == HoldForbidden || p.Reason == HoldUnreadable)
}

// KubeEvent is a Kubernetes Event to record.
type KubeEvent struct {
	Warning         bool
	Reason, Message string
}
