package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rollout says how new versions of one workload are released: the steps,
// the share of the traffic in each, and the approvals and metrics that end it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rollouts,categories=sluice
// +kubebuilder:printcolumn:name="STATUS",type="string",JSONPath=".status.phase",description="The phase of the Rollout"
// +kubebuilder:printcolumn:name="CANARY_STEP",type="integer",JSONPath=".status.currentStepIndex",description="The current step, counted from 1"
// +kubebuilder:printcolumn:name="CANARY_STATE",type="string",JSONPath=".status.currentStepState",description="The state of the current step"
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="What the Rollout is doing or waiting for"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Rollout struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The workload, and the strategy of its releases.
	Spec RolloutSpec `json:"spec"`
	// The observed state, and the progress of the release. canaryStatus.currentStepState and
	// canaryStatus.nextStepIndex (and their blueGreenStatus counterparts) also take commands.
	// +optional
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutList is a list of Rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Rollout `json:"items"`
}

// RolloutSpec is the union of both shapes. Exactly one of WorkloadRef (the v1beta1 shape)
// and ObjectRef (the v1alpha1 shape) is set.
type RolloutSpec struct {
	// The workload to release, in the same namespace. Setting it gives the manifest its
	// v1beta1 meaning. Immutable while a release is under way.
	// +optional
	WorkloadRef *ObjectRef `json:"workloadRef,omitempty"`
	// The v1alpha1 form of workloadRef. Setting it gives the manifest its v1alpha1 meaning:
	// the annotation rollouts.kruise.io/rolling-style selects the style (absent: canary),
	// and a step without replicas takes them from its weight.
	// +optional
	ObjectRef *LegacyObjectRef `json:"objectRef,omitempty"`
	// How the workload is released.
	Strategy Strategy `json:"strategy"`
	// Let go of the workload and stay out of its way. A release under way is finalised first.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`
	// The FleetRollout on a hub that governs this Rollout: each release waits for its permits. Absent: the Rollout belongs to no fleet.
	// +optional
	Fleet *FleetReference `json:"fleet,omitempty"`
	// Deprecated and ignored: put the label rollouts.kruise.io/rollout-id on the workload instead.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DeprecatedRolloutID string `json:"rolloutID,omitempty"`
}

// Workload names what the Rollout releases, in either shape; nil when it names nothing.
func (s *RolloutSpec) Workload() *ObjectRef {
	if s.WorkloadRef == nil && s.ObjectRef != nil {
		return s.ObjectRef.WorkloadRef
	}
	return s.WorkloadRef
}

// ObjectRef names an object in the namespace of the Rollout.
type ObjectRef struct {
	// Group and version of the object, for example apps/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind of the object, for example Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// LegacyObjectRef is where v1alpha1 names the workload.
type LegacyObjectRef struct {
	// The workload to release, in the same namespace.
	// +required
	WorkloadRef *ObjectRef `json:"workloadRef,omitempty"`
}
