package api

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RolloutHistory records one release, from its beginning on. Its name is HistoryName. It has no status subresource:
// the executor writes all of it in one request.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rollouthistories
// +kubebuilder:printcolumn:name="ROLLOUT",type="string",JSONPath=".spec.rollout.name",description="The Rollout"
// +kubebuilder:printcolumn:name="EPOCH",type="integer",JSONPath=".status.epoch",description="Number of the release"
// +kubebuilder:printcolumn:name="RELEASE",type="string",JSONPath=".spec.rollout.rolloutID",description="Id of the release"
// +kubebuilder:printcolumn:name="OUTCOME",type="string",JSONPath=".status.outcome",description="How the release ended, empty while it is under way"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type RolloutHistory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects that took part in the release, as they were when it began.
	// +optional
	Spec RolloutHistorySpec `json:"spec,omitempty"`
	// How the release went.
	// +optional
	Status RolloutHistoryStatus `json:"status,omitempty"`
}

// RolloutHistoryList is a list of RolloutHistories.
//
// +kubebuilder:object:root=true
type RolloutHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RolloutHistory `json:"items"`
}

// RolloutHistorySpec holds the specs of the objects that took part in a release.
type RolloutHistorySpec struct {
	// The Rollout.
	// +optional
	Rollout RolloutRecord `json:"rollout,omitempty"`
	// The workload.
	// +optional
	Workload KindRecord `json:"workload,omitempty"`
	// The stable Service.
	// +optional
	Service ObjectRecord `json:"service,omitempty"`
	// The gateway objects.
	// +optional
	TrafficRouting RoutingRecord `json:"trafficRouting,omitempty"`
}

// ObjectRecord is an object's name and spec.
type ObjectRecord struct {
	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`
	// Spec of the object.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Data runtime.RawExtension `json:"data,omitempty,omitzero"`
}

// RolloutRecord is a Rollout's name, spec and release.
type RolloutRecord struct {
	ObjectRecord `json:",inline"`
	// Id of the release.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
}

// KindRecord is an object's kind, name and spec.
type KindRecord struct {
	ObjectRecord `json:",inline"`
	// Group and version of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`
}

// RoutingRecord holds the gateway objects of a release.
type RoutingRecord struct {
	// The Ingress.
	// +optional
	Ingress *ObjectRecord `json:"ingress,omitempty"`
	// The HTTPRoute.
	// +optional
	HTTPRoute *ObjectRecord `json:"httpRoute,omitempty"`
	// All other gateway objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	CustomNetworkRefs []KindRecord `json:"customNetworkRefs,omitempty"`
}

// Limits of a RolloutHistory.
const (
	// MaxHistorySteps is the number of stays at steps; of more, the latest are kept.
	MaxHistorySteps = 50
	// MaxHistoryImages is the number of images.
	MaxHistoryImages = 50
)

// RolloutHistoryStatus tells how a release went.
type RolloutHistoryStatus struct {
	// Empty, or completed once the release has ended.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The pods, by step. Sluice leaves it empty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	CanarySteps []StepRecord `json:"canarySteps,omitempty"`
	// Number of the release, as in status.sluice.epoch of its Rollout.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// canary, partition or bluegreen.
	// +optional
	Style string `json:"style,omitempty"`
	// How the release ended: Completed, Canceled, Aborted, Superseded, Disabled or Deleted. Empty while it
	// is under way. A release that was aborted has ended: what follows is its clearing away, or another release.
	// +optional
	Outcome HistoryOutcome `json:"outcome,omitempty"`
	// When the release began.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// When the release ended.
	// +optional
	EndedAt *metav1.MicroTime `json:"endedAt,omitempty"`
	// Why the release ended as it did, and what this record leaves out.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// The revision that served when the release began, as in status.sluice of its Rollout.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// The revision that was released, as in status.sluice of its Rollout.
	// +optional
	CanaryRevision string `json:"canaryRevision,omitempty"`
	// The images of the revision that was released, init containers included, each once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Images []string `json:"images,omitempty"`
	// The stays at steps, in order. A step that was entered twice, as by a jump, is there twice.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Steps []HistoryStep `json:"steps,omitempty"`
	// The latest transition in this record, as in status.sluice.transitions of its Rollout.
	// +optional
	TransitionSeq int64 `json:"transitionSeq,omitempty"`
}

// HistoryStep is one stay at a step.
type HistoryStep struct {
	// The step, counted from 1.
	Step int32 `json:"step"`
	// The pause or analysis of the stay, as in status.sluice.pauseSeq of its Rollout. 0 before it comes to that.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// When the step was entered.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// When the step was left.
	// +optional
	EndedAt *metav1.MicroTime `json:"endedAt,omitempty"`
	// The approver of the step: a user, the principal of an event, or the analysis. Empty when its time was up.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ApprovedBy string `json:"approvedBy,omitempty"`
	// The comment of the approver.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
	// The last verdict of the metrics of the step: Running, Passing, Passed, Waiting, Inconclusive or Failed. Empty without any.
	// +optional
	Verdict AnalysisPhase `json:"verdict,omitempty"`
}

// HistoryOutcome is how a release ended.
type HistoryOutcome string

// Values of HistoryOutcome.
const (
	// OutcomeCompleted: the new version runs everywhere.
	OutcomeCompleted HistoryOutcome = "Completed"
	// OutcomeCanceled: it was rolled back, or its workload was deleted.
	OutcomeCanceled HistoryOutcome = "Canceled"
	// OutcomeAborted: metrics failed or a user aborted it; the change was kept held.
	OutcomeAborted HistoryOutcome = "Aborted"
	// OutcomeSuperseded: a newer version took its place.
	OutcomeSuperseded HistoryOutcome = "Superseded"
	// OutcomeDisabled: the Rollout was disabled.
	OutcomeDisabled HistoryOutcome = "Disabled"
	// OutcomeDeleted: the Rollout was deleted.
	OutcomeDeleted HistoryOutcome = "Deleted"
)

// StepRecord holds the pods that a step brought.
type StepRecord struct {
	// The step, counted from 1.
	// +optional
	CanaryStepIndex int32 `json:"canaryStepIndex,omitempty"`
	// The pods.
	// +optional
	// +listType=atomic
	Pods []PodRecord `json:"pods,omitempty"`
}

// PodRecord is a pod and where it ran.
type PodRecord struct {
	// Name of the pod.
	// +optional
	Name string `json:"name,omitempty"`
	// Address of the pod.
	// +optional
	IP string `json:"ip,omitempty"`
	// Name of the node.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
}

// HistoryCompleted is the phase of a RolloutHistory whose release has ended.
const HistoryCompleted = "completed"

// maxName is how long the name of an object may be.
const maxName = 253

// HistoryName is the name of the RolloutHistory of a Rollout's release: the Rollout's name, a hyphen and the epoch. A name that would be too long
// has a shorter name of the Rollout with a hash.
func HistoryName(rollout string, epoch int64) string {
	end := "-" + strconv.FormatInt(epoch, 10)
	if len(rollout)+len(end) <= maxName {
		return rollout + end
	}
	sum := sha256.Sum256([]byte(rollout))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(rollout[:maxName-len(end)-len(hash)], "-.") + hash + end
}
