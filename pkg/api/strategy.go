package api

import "k8s.io/apimachinery/pkg/util/intstr"

// Strategy holds exactly one of Canary and BlueGreen.
type Strategy struct {
	// Freeze the release where it is. A rollback is still seen and carried out.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Replace the old version step by step, in the workload itself (partition style) or
	// with a second workload in parallel (canary style).
	// +optional
	Canary *CanaryStrategy `json:"canary,omitempty"`
	// Bring up the new version in parallel with all pods of the old one, and switch between them.
	// +optional
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty"`
	// Metrics that watch the release as a whole, during and between its steps.
	// +optional
	Analysis *ReleaseAnalysis `json:"analysis,omitempty"`
	// Go back to a version that served lately without its steps.
	// +optional
	RollbackWindow *RollbackWindow `json:"rollbackWindow,omitempty"`
	// Release although a Service of trafficRoutings reaches no ready pod of the stable version. May be set while a release is held for that.
	// +optional
	AllowUnreachableStable bool `json:"allowUnreachableStable,omitempty"`
	// Release although a Service of trafficRoutings has ready pods of other workloads behind it, which get no requests through it during the
	// release. May be set while a release is held for that.
	// +optional
	AllowDroppedEndpoints bool `json:"allowDroppedEndpoints,omitempty"`
}

// RollbackWindow says which versions are known well enough to be released at once.
type RollbackWindow struct {
	// How many of the versions that served before the stable one count.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Revisions int32 `json:"revisions"`
}

// CanaryStrategy describes a partition-style or a canary-style release.
type CanaryStrategy struct {
	// The steps of the release, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Steps []Step `json:"steps,omitempty"`
	// Where the traffic of the workload is routed. Immutable while a release is under way.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TrafficRoutings []TrafficRoutingRef `json:"trafficRoutings,omitempty"`
	// How many updated pods may be unready while a step still counts as done: a number, or
	// a percentage of the updated pods, rounded up. Absent means none.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}%$`
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// Labels and annotations for the pods of the canary workload. A label that the Service
	// selects by is changed in the selector of the canary Service as well.
	// +optional
	PatchPodTemplateMetadata *PodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// Run the new version in a second Deployment, in parallel with the stable one (canary style). For
	// other kinds than Deployment it has no effect.
	// +optional
	EnableExtraWorkloadForCanary bool `json:"enableExtraWorkloadForCanary,omitempty"`
	// Name of a TrafficRouting in the same namespace that is applied during the release.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrafficRoutingRef string `json:"trafficRoutingRef,omitempty"`
	// Do not make a canary Service: the stable Service stands for both versions, and the
	// gateway tells them apart by pod labels.
	// +optional
	DisableGenerateCanaryService *bool `json:"disableGenerateCanaryService,omitempty"`
	// Whether the stable workload keeps all its pods while the canary grows
	// (Surge, the default), or gives up as many as the canary gains, as far as its traffic
	// allows (Constant). It is about canary style with a second Deployment.
	// +optional
	Capacity Capacity `json:"capacity,omitempty"`
	// How long the canary workload is kept after an abort, in seconds. Its traffic goes at once.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	AbortScaleDownDelaySeconds *int32 `json:"abortScaleDownDelaySeconds,omitempty"`
	// How long a step may take to become ready, in seconds: its pods, their endpoints, and
	// the gateway that accepts its routing. Absent means no limit. Time spent waiting for
	// approval does not count, nor does a pause of the Rollout.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// The action when progressDeadlineSeconds has passed: Abort takes the release back, as
	// metrics that fail do; Pause (the default) says so and waits, and goes on when the step
	// is ready after all.
	// +optional
	OnDeadline DeadlineAction `json:"onDeadline,omitempty"`
	// The action when the release fails, unless the failing analysis says otherwise:
	// Abort (the default), Rollback or Pause.
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
}

// BlueGreenStrategy describes a blue-green release.
type BlueGreenStrategy struct {
	// The steps of the release, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Steps []Step `json:"steps,omitempty"`
	// Where the traffic of the workload is routed. Immutable while a release is under way.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TrafficRoutings []TrafficRoutingRef `json:"trafficRoutings,omitempty"`
	// How many updated pods may be unready while a step still counts as done: a number, or
	// a percentage of the updated pods, rounded up. Absent means none.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}%$`
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// Name of a TrafficRouting in the same namespace that is applied during the release.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TrafficRoutingRef string `json:"trafficRoutingRef,omitempty"`
	// Do not make a canary Service: the stable Service stands for both versions, and the
	// gateway tells them apart by pod labels.
	// +optional
	DisableGenerateCanaryService *bool `json:"disableGenerateCanaryService,omitempty"`
	// How long the new version is kept after an abort, in seconds. Its traffic goes at once.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	AbortScaleDownDelaySeconds *int32 `json:"abortScaleDownDelaySeconds,omitempty"`
	// How long a step may take to become ready, in seconds: its pods, their endpoints, and
	// the gateway that accepts its routing. Absent means no limit. Time spent waiting for
	// approval does not count, nor does a pause of the Rollout.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// The action when progressDeadlineSeconds has passed: Abort takes the release back, as
	// metrics that fail do; Pause (the default) says so and waits, and goes on when the step
	// is ready after all.
	// +optional
	OnDeadline DeadlineAction `json:"onDeadline,omitempty"`
	// The action when the release fails, unless the failing analysis says otherwise:
	// Abort (the default), Rollback or Pause.
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
}

// PodTemplateMetadata is merged into the metadata of a pod template.
type PodTemplateMetadata struct {
	// Labels to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Capacity says what the stable workload does while the canary grows.
//
// +kubebuilder:validation:Enum=Surge;Constant
type Capacity string

// Values of Capacity; empty means CapacitySurge.
const (
	CapacitySurge    Capacity = "Surge"
	CapacityConstant Capacity = "Constant"
)

// DeadlineAction says what follows a missed progress deadline.
//
// +kubebuilder:validation:Enum=Abort;Pause
type DeadlineAction string

// Values of DeadlineAction; empty means DeadlinePause.
const (
	DeadlineAbort DeadlineAction = "Abort"
	DeadlinePause DeadlineAction = "Pause"
)

// FailureAction says what follows a failed analysis or release.
//
// +kubebuilder:validation:Enum=Abort;Rollback;Pause
type FailureAction string

// Values of FailureAction; empty means FailureAbort.
const (
	FailureAbort    FailureAction = "Abort"
	FailureRollback FailureAction = "Rollback"
	FailurePause    FailureAction = "Pause"
)
