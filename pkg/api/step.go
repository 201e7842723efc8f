package api

import "k8s.io/apimachinery/pkg/util/intstr"

// Step is one step of a release: the number of pods of the new version, their share of the
// traffic, and the end of the step.
type Step struct {
	// How many pods run the new version at this step: a number, or a percentage of the
	// workload's replicas, rounded up. Required, except that a step with a weight or
	// traffic in the v1alpha1 form takes that percentage.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}%$`
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// Share of the traffic for the new version, for example "5%" or "0.5%".
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3})?%$`
	Traffic *string `json:"traffic,omitempty"`
	// The v1alpha1 form of traffic: a share in percent, as a number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight *int32 `json:"weight,omitempty"`
	// Requests that go to the new version regardless of the share: a request matches if it
	// satisfies every condition of at least one entry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Matches []HTTPRouteMatch `json:"matches,omitempty"`
	// Changes to the headers of the requests that go to the new version.
	// +optional
	RequestHeaderModifier *HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// Copy requests to the new version; the answers to the copies are thrown away.
	// +optional
	Mirror *Mirror `json:"mirror,omitempty"`
	// Let the step replace the last pod of the stable version although the step asks for less, such as 10% of a single pod. It concerns
	// workloads that replace their pods in place. May be set while a release is held for that.
	// +optional
	AllowFullStep bool `json:"allowFullStep,omitempty"`
	// The pause at the end of the step. Absent, or without a duration, it waits for approval.
	// +optional
	Pause Pause `json:"pause,omitempty,omitzero"`
	// Metrics that must agree before the step ends.
	// +optional
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Pause ends a step. The zero value waits for approval.
type Pause struct {
	// Seconds after which the release moves on by itself; 0 moves on at once. Absent: the
	// release waits for approval.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Duration *int32 `json:"duration,omitempty"`
}

// Mirror copies requests to the new version.
type Mirror struct {
	// Share of the requests to copy, for example "10%".
	// +optional
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}(\.[0-9]{1,3})?%$`
	Traffic string `json:"traffic,omitempty"`
}
