package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FleetRollout takes one version through many clusters. It governs the Rollout of the same namespace and name in each of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fleetrollouts,shortName=fro,categories=sluice
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 189",message="the name of a FleetRollout has at most 189 characters, because the names of its FleetTargets also contain the name of a cluster"
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="The phase of the release over all clusters"
// +kubebuilder:printcolumn:name="VERSION",type="string",JSONPath=".status.release.version",description="The version of the release"
// +kubebuilder:printcolumn:name="WAVE",type="integer",JSONPath=".status.wave",description="The wave under way, counted from 1"
// +kubebuilder:printcolumn:name="PLAN",type="string",priority=1,JSONPath=".spec.plan",description="The FleetPlan"
// +kubebuilder:printcolumn:name="COMPLETED",type="integer",JSONPath=".status.counts.Completed",description="The clusters that have completed"
// +kubebuilder:printcolumn:name="FAILED",type="integer",JSONPath=".status.counts.Failed",description="The clusters that have failed"
// +kubebuilder:printcolumn:name="MESSAGE",type="string",JSONPath=".status.message",description="What the release is doing or waiting for"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type FleetRollout struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which version goes through which clusters, and how.
	Spec FleetRolloutSpec `json:"spec"`
	// What the hub has decided.
	// +optional
	Status FleetRolloutStatus `json:"status,omitempty"`
}

// FleetRolloutList is a list of FleetRollouts.
//
// +kubebuilder:object:root=true
type FleetRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetRollout `json:"items"`
}

// FleetRolloutSpec says which version goes through which clusters, and how. It names a FleetPlan, or has waves of its own.
//
// +kubebuilder:validation:XValidation:rule="has(self.plan) != has(self.waves)",message="name a FleetPlan in plan, or give waves: one of both"
// +kubebuilder:validation:XValidation:rule="!has(self.plan) || !(has(self.clusters) || has(self.budgets) || has(self.maxFailed) || has(self.onFailure) || has(self.progressDeadline) || has(self.deliveryDeadline) || has(self.localPauses) || has(self.allowNoWayBack))",message="the FleetPlan of plan has these fields: remove them here, or give waves in place of plan"
// +kubebuilder:validation:XValidation:rule="!has(self.delivery) || self.delivery != 'Patch' || !has(self.release) || has(self.release.images)",message="delivery Patch sets images: name them in release.images"
type FleetRolloutSpec struct {
	// The name of a FleetPlan. Needs the verb use on that FleetPlan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Plan          string `json:"plan,omitempty"`
	FleetStrategy `json:",inline"`
	// Who changes the workload in each cluster. External by default.
	// +optional
	Delivery FleetDelivery `json:"delivery,omitempty"`
	// The version that the clusters get. Another version is another release.
	// +optional
	Release *FleetRelease `json:"release,omitempty"`
	// Clusters that get no permit. This version of Sluice does not have it: the release stalls.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Holds []FleetPin `json:"holds,omitempty"`
	// Other releases that must have succeeded before. This version of Sluice does not have it: the release stalls.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Requires []FleetRequirement `json:"requires,omitempty"`
	// What a new version does to the release under way. Supersede by default. With Queue, which this version of Sluice does not have, the release stalls.
	// +optional
	OnNewVersion FleetOnNewVersion `json:"onNewVersion,omitempty"`
	// Whether a cluster may create the workload before its wave. Allow by default. With Wait, which this version of Sluice does not have, the release stalls.
	// +optional
	FirstInstall FleetFirstInstall `json:"firstInstall,omitempty"`
	// Metrics over several clusters. This version of Sluice does not have it: the release stalls.
	// +optional
	Analysis *FleetAnalysis `json:"analysis,omitempty"`
	// The least time between the beginnings of two releases. This version of Sluice does not have it: the release stalls.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) <= duration('8760h')",message="write a duration from 0s to 8760h, such as 30s, 10m or 1h30m"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
	// The release goes no further until it is false again. It still goes back if it must.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// FleetDelivery says who changes the workload in each cluster.
//
// +kubebuilder:validation:Enum=External;Patch
type FleetDelivery string

// Values of FleetDelivery.
const (
	// FleetDeliveryExternal: a GitOps tool or a pipeline changes the workload in each cluster, where the change is held.
	FleetDeliveryExternal FleetDelivery = "External"
	// FleetDeliveryPatch: the cluster sets the images.
	FleetDeliveryPatch FleetDelivery = "Patch"
)

// FleetOnNewVersion says what a new version does to the release under way.
//
// +kubebuilder:validation:Enum=Supersede;Queue
type FleetOnNewVersion string

// Values of FleetOnNewVersion.
const (
	// FleetOnNewVersionSupersede ends the release under way.
	FleetOnNewVersionSupersede FleetOnNewVersion = "Supersede"
	// FleetOnNewVersionQueue waits for its end.
	FleetOnNewVersionQueue FleetOnNewVersion = "Queue"
)

// FleetFirstInstall says whether a cluster may create the workload before its wave.
//
// +kubebuilder:validation:Enum=Allow;Wait
type FleetFirstInstall string

// Values of FleetFirstInstall.
const (
	// FleetFirstInstallAllow: it may.
	FleetFirstInstallAllow FleetFirstInstall = "Allow"
	// FleetFirstInstallWait: it waits for its wave.
	FleetFirstInstallWait FleetFirstInstall = "Wait"
)

// FleetAnalysis says which metrics over several clusters judge a release.
type FleetAnalysis struct {
	// Where the metrics are measured.
	Scope FleetAnalysisScope `json:"scope"`
}

// FleetAnalysisScope says where the metrics of a fleet are measured.
//
// +kubebuilder:validation:Enum=Fleet;Hub
type FleetAnalysisScope string

// Values of FleetAnalysisScope.
const (
	// FleetAnalysisScopeFleet: in each cluster. The hub adds the measurements up.
	FleetAnalysisScopeFleet FleetAnalysisScope = "Fleet"
	// FleetAnalysisScopeHub: on the hub, where one query covers all clusters.
	FleetAnalysisScopeHub FleetAnalysisScope = "Hub"
)

// FleetPin keeps clusters at their version.
type FleetPin struct {
	// The clusters, by the labels of their FleetMembers.
	Clusters metav1.LabelSelector `json:"clusters"`
	// Why.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// When it ends by itself.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// FleetRequirement is another release that must have succeeded with the same version.
type FleetRequirement struct {
	// The name of a FleetRollout in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	FleetRollout string `json:"fleetRollout"`
	// How long ago it must have succeeded.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') && duration(self) <= duration('8760h')",message="write a duration from 0s to 8760h, such as 30s, 10m or 1h30m"
	SucceededFor *metav1.Duration `json:"succeededFor,omitempty"`
}
