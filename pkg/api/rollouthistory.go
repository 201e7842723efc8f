package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RolloutHistory records one finished release.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=rollouthistories
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type RolloutHistory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects that took part in the release.
	// +optional
	Spec RolloutHistorySpec `json:"spec,omitempty"`
	// The pods that the release brought.
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
	Workload WorkloadRecord `json:"workload,omitempty"`
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

// WorkloadRecord is a workload's kind, name and spec.
type WorkloadRecord struct {
	ObjectRecord `json:",inline"`
	// Group and version of the workload.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the workload.
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
}

// RolloutHistoryStatus holds the pods that a release brought.
type RolloutHistoryStatus struct {
	// Empty, or completed.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The pods, by step.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	CanarySteps []StepRecord `json:"canarySteps,omitempty"`
}

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
