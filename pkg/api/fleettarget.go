package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FleetTarget is one cluster in the release of a FleetRollout. Its name is the name of the FleetRollout, a dot, and the name of the cluster. The hub writes it,
// and the FleetRollout owns it. Its spec and its status are written together.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=fleettargets,shortName=ft,categories=sluice
// +kubebuilder:printcolumn:name="CLUSTER",type="string",JSONPath=".spec.cluster",description="The cluster"
// +kubebuilder:printcolumn:name="WAVE",type="integer",JSONPath=".status.wave",description="The wave of the cluster, counted from 1"
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="How far the cluster has come"
// +kubebuilder:printcolumn:name="REASON",type="string",JSONPath=".status.reason",description="Why, as one word"
// +kubebuilder:printcolumn:name="STEP",type="integer",JSONPath=".status.report.step",description="The step that its release has reached, counted from 1"
// +kubebuilder:printcolumn:name="SINCE",type="date",JSONPath=".status.since",description="When the phase began"
// +kubebuilder:printcolumn:name="MESSAGE",type="string",priority=1,JSONPath=".status.report.message",description="What the cluster last said"
type FleetTarget struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the hub allows the cluster.
	Spec FleetTargetSpec `json:"spec"`
	// What the hub knows of the cluster.
	// +optional
	Status FleetTargetStatus `json:"status,omitempty"`
}

// FleetTargetList is a list of FleetTargets.
//
// +kubebuilder:object:root=true
type FleetTargetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetTarget `json:"items"`
}

// FleetTargetSpec is what the hub allows one cluster.
type FleetTargetSpec struct {
	// The name of the FleetMember.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster"`
	// The last permit.
	Permit FleetPermit `json:"permit"`
}

// FleetPermit is what the hub allows one cluster. A later one has a higher (epoch, seq).
type FleetPermit struct {
	// The release or withdrawal that it belongs to.
	Epoch int64 `json:"epoch"`
	// The grant that it belongs to.
	Seq int64 `json:"seq"`
	// What the member may or must do.
	Verb FleetVerb `json:"verb"`
	// The version that it is about, in the form of status.blocked of a FleetRollout. Empty for Abort.
	// +optional
	Version string `json:"version,omitempty"`
	// Hash of the pod template in this cluster. The member runs no other template under this permit. Empty for Abort and Withdraw, and with images.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UID of the Rollout that has reported the template. A Rollout that was created again begins nothing under this permit.
	// +optional
	RolloutUID types.UID `json:"rolloutUID,omitempty"`
	// The images that the member sets, by the names of their containers. Under this permit it runs only the resulting template.
	// +optional
	Images map[string]string `json:"images,omitempty"`
	// The step at which the release holds, counted from 1. 0: it goes on to the end.
	// +optional
	HoldAt int32 `json:"holdAt,omitempty"`
	// Hash of the member's steps. Edited steps hold.
	// +optional
	PlanHash string `json:"planHash,omitempty"`
	// After this time no step begins.
	// +optional
	NotAfter *metav1.MicroTime `json:"notAfter,omitempty"`
	// Who ends the pauses in the steps of the cluster. Pass by default.
	// +optional
	LocalPauses FleetLocalPauses `json:"localPauses,omitempty"`
	// The cluster has no users, and its release skips its analyses.
	// +optional
	NoTraffic bool `json:"noTraffic,omitempty"`
	// Names of templates whose analyses the release skips, because a person said so.
	// +optional
	// +listType=atomic
	SkipAnalyses []string `json:"skipAnalyses,omitempty"`
	// How many clusters the release has in all.
	// +optional
	Clusters int32 `json:"clusters,omitempty"`
	// Name of the wave of the cluster, for people. Empty for Abort and Withdraw.
	// +optional
	Wave string `json:"wave,omitempty"`
}

// EndsFleet reports whether the FleetRollout of the permit was deleted. Such a permit is the order to hold without a number in its epoch: grants count from 1.
func (p FleetPermit) EndsFleet() bool { return p.Verb == FleetVerbHold && p.Seq == 0 }

// FleetVersion is one version of a workload, as its own cluster sees it.
type FleetVersion struct {
	// The annotation sluice.dev/version of the workload, or else its rollout-id.
	// +optional
	Version string `json:"version,omitempty"`
	// Digest of the images by container.
	// +optional
	Images string `json:"images,omitempty"`
	// Hash of the pod template in this cluster.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// FleetReport is what a member says about one governed Rollout.
type FleetReport struct {
	// The permit that the member has committed, 0 and 0 for none.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The number of that permit in its epoch.
	// +optional
	Seq int64 `json:"seq,omitempty"`
	// UID of the Rollout.
	// +optional
	RolloutUID types.UID `json:"rolloutUID,omitempty"`
	// What the member does about that permit.
	State FleetReportState `json:"state"`
	// Why, as one word: for Failed, what failed.
	// +optional
	Reason string `json:"reason,omitempty"`
	// The same as a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// The version of the workload's template: held, under way, or stable.
	// +optional
	Template FleetVersion `json:"template,omitempty"`
	// The version that all users get if the release under way ends without success.
	// +optional
	Stable FleetVersion `json:"stable,omitempty"`
	// The step that is reached, counted from 1.
	// +optional
	Step int32 `json:"step,omitempty"`
	// Hash of the member's steps.
	// +optional
	PlanHash string `json:"planHash,omitempty"`
	// The member waits for a person of its own, such as for an approval in its cluster.
	// +optional
	AwaitsPerson bool `json:"awaitsPerson,omitempty"`
	// Less than 90 % of the wanted pods were ready for 60 s.
	// +optional
	Unhealthy bool `json:"unhealthy,omitempty"`
	// The member could go back from the version that it holds or releases; at rest, from the next version.
	// +optional
	CanGoBack bool `json:"canGoBack,omitempty"`
	// Why the template runs although no permit allows it, empty if it does not.
	// +optional
	Unpermitted string `json:"unpermitted,omitempty"`
	// The user who lets the release under way go on without permits, and why. Empty if none does.
	// +optional
	Overridden string `json:"overridden,omitempty"`
	// The versions that the member blocks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Blocked []FleetBlock `json:"blocked,omitempty"`
}

// FleetReportState is what a member does about its permit.
type FleetReportState string

// Values of FleetReportState.
const (
	// FleetReportIdle: no release is under way, and no permit is to be answered.
	FleetReportIdle FleetReportState = "Idle"
	// FleetReportHeld: a change is held and waits for a permit.
	FleetReportHeld FleetReportState = "Held"
	// FleetReportProgressing: the permitted release, or the way back, is under way.
	FleetReportProgressing FleetReportState = "Progressing"
	// FleetReportAtHold: the release has reached the step of the permit's holdAt, or stands still by the verb Hold.
	FleetReportAtHold FleetReportState = "AtHold"
	// FleetReportCompleted: the permit was carried out.
	FleetReportCompleted FleetReportState = "Completed"
	// FleetReportFailed: the release ended without success, or cannot go on.
	FleetReportFailed FleetReportState = "Failed"
	// FleetReportAbsent: the cluster has no such Rollout.
	FleetReportAbsent FleetReportState = "Absent"
	// FleetReportUngoverned: the Rollout of the cluster names no FleetRollout, or another one.
	FleetReportUngoverned FleetReportState = "Ungoverned"
)

// FleetReasonMetrics is the reason of a report whose release failed by its metrics.
const FleetReasonMetrics = "AnalysisFailed"

// FleetTargetStatus is what the hub knows of one cluster in one release.
type FleetTargetStatus struct {
	// The wave of the cluster, counted from 1.
	// +optional
	Wave int32 `json:"wave,omitempty"`
	// How far the cluster has come.
	// +optional
	Phase FleetTargetPhase `json:"phase,omitempty"`
	// Why, as one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// When the phase began.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// The epoch in which the release began that the phase is about.
	// +optional
	Began int64 `json:"began,omitempty"`
	// The permit that the times and the failure below are about.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The number of that permit in its epoch.
	// +optional
	Seq int64 `json:"seq,omitempty"`
	// Why the cluster has failed in this release, as one word. It stays until a person lets the cluster try again.
	// +optional
	Failure string `json:"failure,omitempty"`
	// How long the release has been under way before the present stretch, without the time in which it waited for a person.
	// +optional
	Progressed metav1.Duration `json:"progressed,omitempty"`
	// When the present stretch of progress began.
	// +optional
	ProgressingSince *metav1.MicroTime `json:"progressingSince,omitempty"`
	// When the member came to the hold of its wave.
	// +optional
	HeldSince *metav1.MicroTime `json:"heldSince,omitempty"`
	// When the member answered with Completed.
	// +optional
	CompletedAt *metav1.MicroTime `json:"completedAt,omitempty"`
	// How long it was healthy before the present stretch, at the hold or since it has completed.
	// +optional
	Soaked metav1.Duration `json:"soaked,omitempty"`
	// When the present stretch of health began.
	// +optional
	SoakingSince *metav1.MicroTime `json:"soakingSince,omitempty"`
	// The last report of the member.
	// +optional
	Report *FleetReport `json:"report,omitempty"`
}

// FleetTargetPhase is how far a cluster has come in a release.
type FleetTargetPhase string

// Values of FleetTargetPhase.
const (
	FleetTargetPending          FleetTargetPhase = "Pending"
	FleetTargetAwaitingDelivery FleetTargetPhase = "AwaitingDelivery"
	FleetTargetPermitted        FleetTargetPhase = "Permitted"
	FleetTargetProgressing      FleetTargetPhase = "Progressing"
	FleetTargetAtHold           FleetTargetPhase = "AtHold"
	FleetTargetSoaking          FleetTargetPhase = "Soaking"
	FleetTargetCompleted        FleetTargetPhase = "Completed"
	FleetTargetSkipped          FleetTargetPhase = "Skipped"
	FleetTargetLeft             FleetTargetPhase = "Left"
	FleetTargetAbsent           FleetTargetPhase = "Absent"
	FleetTargetUngoverned       FleetTargetPhase = "Ungoverned"
	FleetTargetFailed           FleetTargetPhase = "Failed"
	FleetTargetWithdrawn        FleetTargetPhase = "Withdrawn"
	FleetTargetNoWayBack        FleetTargetPhase = "NoWayBack"
	FleetTargetDeferred         FleetTargetPhase = "Deferred"
	FleetTargetUnknown          FleetTargetPhase = "Unknown"
	FleetTargetDiverged         FleetTargetPhase = "Diverged"
	FleetTargetUnpermitted      FleetTargetPhase = "Unpermitted"
)
