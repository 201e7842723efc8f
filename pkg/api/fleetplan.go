package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FleetPlan is a plan that the FleetRollouts of some namespaces may name. A release keeps the plan that it began with.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=fleetplans,scope=Cluster,shortName=fp,categories=sluice
// +kubebuilder:printcolumn:name="FIRST_WAVE",type="string",JSONPath=".spec.waves[0].name",description="The first of the waves"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type FleetPlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The waves and their conditions, and who may use them.
	Spec FleetPlanSpec `json:"spec"`
}

// FleetPlanList is a list of FleetPlans.
//
// +kubebuilder:object:root=true
type FleetPlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetPlan `json:"items"`
}

// FleetPlanSpec is a strategy with the namespaces that may use it.
//
// +kubebuilder:validation:XValidation:rule="has(self.waves)",message="name the waves of the plan, at least one"
type FleetPlanSpec struct {
	FleetStrategy `json:",inline"`
	// The namespaces whose FleetRollouts may name this plan. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// FleetStrategy says in which order, how fast and under which conditions a version goes through the clusters.
type FleetStrategy struct {
	// The clusters, by the labels of their FleetMembers. Absent: all.
	// +optional
	Clusters metav1.LabelSelector `json:"clusters,omitzero"`
	// The waves, in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:XValidation:rule="self.all(w, w.name == self[self.size() - 1].name || has(w.clusters) || (has(w.percent) && w.percent < 100))",message="only the last wave may take all clusters that are left: give the other waves clusters or percent"
	Waves []FleetWave `json:"waves,omitempty"`
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
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="write a duration above 0s and up to 8760h, such as 45m or 1h30m"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// How long the hub waits until the version has arrived in a cluster, such as 1h. The cluster is deferred after that.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="write a duration above 0s and up to 8760h, such as 45m or 1h30m"
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
	// The key of a label over whose values the wave spreads its clusters, such as region. This version of Sluice does not have it: the release stalls.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Spread string `json:"spread,omitempty"`
	// How many clusters may be under way at once: a number, or a percentage of the wave's clusters, rounded up. At least 1, which is the
	// default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 1 && self <= 2147483647",message="write a number of clusters from 1 on, or a percentage from 1% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// All clusters of the wave stop at a step, are judged once, and then go on.
	// +optional
	HoldAt *FleetHoldAt `json:"holdAt,omitempty"`
	// How long each cluster must be healthy after its release, such as 30m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) <= duration('8760h')",message="write a duration from 0s to 8760h, such as 30s, 10m or 1h30m"
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
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) <= duration('8760h')",message="write a duration from 0s to 8760h, such as 30s, 10m or 1h30m"
	Soak *metav1.Duration `json:"soak,omitempty"`
	// Wait after that: for an approval, or for a time. Absent: go on.
	// +optional
	Pause *Pause `json:"pause,omitempty"`
}

// FleetBudgets are numbers of clusters, or percentages of the wave's clusters, rounded down. A budget is exceeded if the number is above it.
type FleetBudgets struct {
	// Clusters that failed. 0 by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0 && self <= 2147483647",message="write a number of clusters from 0 on, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	Failed *intstr.IntOrString `json:"failed,omitempty"`
	// Clusters that are deferred, because the hub cannot reach them or the version has not arrived. 10% by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0 && self <= 2147483647",message="write a number of clusters from 0 on, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	Unreachable *intstr.IntOrString `json:"unreachable,omitempty"`
	// Clusters that the hub has lost while they had a permit. 1 by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0 && self <= 2147483647",message="write a number of clusters from 0 on, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
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
