package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FleetPlanSpec says in which order, how fast and under which conditions a version goes through the clusters.
type FleetPlanSpec struct {
	// The clusters, by the labels of their FleetMembers.
	Clusters metav1.LabelSelector `json:"clusters"`
	// The waves, in their order.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Waves []FleetWave `json:"waves"`
	// How many clusters of a wave may go wrong. Defaults of each wave.
	// +optional
	Budgets *FleetBudgets `json:"budgets,omitempty"`
	// How many clusters may fail in the whole release. Absent: no limit beyond those of the waves.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxFailed *int32 `json:"maxFailed,omitempty"`
	// What the hub does about failures.
	// +optional
	OnFailure *FleetOnFailure `json:"onFailure,omitempty"`
	// How long one cluster may take from the moment that it holds the permitted version, such as 45m. The time stands still while the cluster
	// waits for a person.
	// +optional
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// How long the hub waits until the version has arrived in a cluster, such as 1h. The cluster is deferred after that.
	// +optional
	DeliveryDeadline *metav1.Duration `json:"deliveryDeadline,omitempty"`
	// Who ends the pauses in the steps of each cluster. Pass by default.
	// +optional
	LocalPauses FleetLocalPauses `json:"localPauses,omitempty"`
	// Give permits also to clusters that could not go back.
	// +optional
	AllowNoWayBack bool `json:"allowNoWayBack,omitempty"`
}

// FleetWave is a group of clusters that get the version together.
type FleetWave struct {
	// Name of the wave.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// The clusters of the wave, by labels. Absent: all that are left.
	// +optional
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// Take that share of them only, rounded up, of those that are left when the wave begins.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`
	// How many clusters may be under way at once: a number, or a percentage of the wave's clusters, rounded up. At least 1, which is the
	// default.
	// +optional
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// All clusters of the wave stop at a step, are judged once, and then go on.
	// +optional
	HoldAt *FleetHoldAt `json:"holdAt,omitempty"`
	// How long each cluster must be healthy after its release, such as 30m.
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
	// Wait after the wave: for an approval, or for a time. Absent: go on.
	// +optional
	Pause *Pause `json:"pause,omitempty"`
	// How many clusters must have completed and soaked before the wave passes. 1 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinCompleted int32 `json:"minCompleted,omitempty"`
	// How many clusters of this wave may go wrong.
	// +optional
	Budgets *FleetBudgets `json:"budgets,omitempty"`
}

// FleetHoldAt is a step at which all clusters of a wave stop.
type FleetHoldAt struct {
	// The step, counted from 1. A Rollout with fewer steps stops at its last one.
	// +kubebuilder:validation:Minimum=1
	Step int32 `json:"step"`
	// How long the clusters must be healthy at that step.
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`
	// Wait after that: for an approval, or for a time. Absent: go on.
	// +optional
	Pause *Pause `json:"pause,omitempty"`
}

// FleetBudgets are numbers of clusters, or percentages of the wave's clusters, rounded down. A budget is exceeded if the number is above it.
type FleetBudgets struct {
	// Clusters that failed. 0 by default.
	// +optional
	Failed *intstr.IntOrString `json:"failed,omitempty"`
	// Clusters that are deferred, because the hub cannot reach them or the version has not arrived. 10% by default.
	// +optional
	Unreachable *intstr.IntOrString `json:"unreachable,omitempty"`
	// Clusters that the hub has lost while they had a permit. 1 by default.
	// +optional
	Unknown *intstr.IntOrString `json:"unknown,omitempty"`
}

// FleetOnFailure says what the hub does about failures.
type FleetOnFailure struct {
	// If metrics failed in a cluster. Withdraw by default.
	// +optional
	Metrics FleetFailurePolicy `json:"metrics,omitempty"`
	// If a person or a program rejected a pause. Pause by default.
	// +optional
	Rejection FleetFailurePolicy `json:"rejection,omitempty"`
	// If more clusters failed than a budget allows. Pause by default.
	// +optional
	Budget FleetFailurePolicy `json:"budget,omitempty"`
}

// FleetFailurePolicy is what the hub does about a failure.
//
// +kubebuilder:validation:Enum=Pause;Withdraw
type FleetFailurePolicy string

// Values of FleetFailurePolicy.
const (
	// FleetFailurePause stops all clusters at their steps and waits for a person.
	FleetFailurePause FleetFailurePolicy = "Pause"
	// FleetFailureWithdraw takes the version back in all clusters.
	FleetFailureWithdraw FleetFailurePolicy = "Withdraw"
)
