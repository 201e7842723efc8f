package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FleetMember is a cluster of the fleet. Its name is part of NATS subjects and of the names of FleetTargets.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fleetmembers,scope=Cluster,shortName=fm,categories=sluice
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="the name of a FleetMember is a DNS label: at most 63 characters of a-z, 0-9 and '-', and no dots"
// +kubebuilder:printcolumn:name="PHASE",type="string",JSONPath=".status.phase",description="Whether the hub hears the cluster"
// +kubebuilder:printcolumn:name="LAST_SEEN",type="date",JSONPath=".status.lastSeen",description="When the hub heard the cluster, to the minute"
// +kubebuilder:printcolumn:name="ENFORCEMENT",type="string",JSONPath=".status.enforcement",description="What holds changes in the cluster"
// +kubebuilder:printcolumn:name="VERSION",type="string",JSONPath=".status.version",description="The version of Sluice in the cluster"
// +kubebuilder:printcolumn:name="CORDONED",type="string",JSONPath=".spec.cordoned.reason",description="Why the cluster begins nothing new"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type FleetMember struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Who the cluster is.
	Spec FleetMemberSpec `json:"spec"`
	// What the hub knows of the cluster.
	// +optional
	Status FleetMemberStatus `json:"status,omitempty"`
}

// FleetMemberList is a list of FleetMembers.
//
// +kubebuilder:object:root=true
type FleetMemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetMember `json:"items"`
}

// FleetMemberSpec says who a cluster is. Labels of the FleetMember select it for plans and waves.
type FleetMemberSpec struct {
	// The public nkey of the cluster, which begins with U. The cluster signs its messages by the private one.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^U[A-Z2-7]{55}$')",message="write a public key as sluice fleet join prints it: U, and 55 characters of A to Z and 2 to 7"
	Key string `json:"key"`
	// A second key, while the cluster changes its key.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^U[A-Z2-7]{55}$')",message="write a public key as sluice fleet join prints it: U, and 55 characters of A to Z and 2 to 7"
	NextKey string `json:"nextKey,omitempty"`
	// The cluster begins no release. It still goes back if it must.
	// +optional
	Cordoned *FleetCordon `json:"cordoned,omitempty"`
	// The cluster has no users. The metrics of its releases say nothing, and it skips their analyses.
	// +optional
	NoTraffic bool `json:"noTraffic,omitempty"`
}

// FleetCordon says why a cluster begins no release.
type FleetCordon struct {
	// Why.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// The cordon ends by itself at this time. Absent: a person removes it.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// Holds reports whether the cluster begins nothing new; c may be nil.
func (c *FleetCordon) Holds(now time.Time) bool {
	return c != nil && (c.Until == nil || now.Before(c.Until.Time))
}

// FleetMemberStatus is what the hub knows of a cluster.
type FleetMemberStatus struct {
	// Ready, Unreachable or NameTaken.
	// +optional
	Phase FleetMemberPhase `json:"phase,omitempty"`
	// The same as a sentence, with the next thing to do.
	// +optional
	Message string `json:"message,omitempty"`
	// When the hub heard the cluster last. The hub writes it once a minute.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// The UID of the namespace kube-system of the cluster that joined first under this name.
	// +optional
	UID string `json:"uid,omitempty"`
	// The version of Sluice in the cluster.
	// +optional
	Version string `json:"version,omitempty"`
	// How far the clock of the cluster is ahead of the hub's clock, to the second.
	// +optional
	ClockSkew *metav1.Duration `json:"clockSkew,omitempty"`
	// What holds changes in the cluster. A cluster without it gets no permit.
	// +optional
	Enforcement FleetEnforcement `json:"enforcement,omitempty"`
	// The public keys of the hub that the cluster trusts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	HubKeys []string `json:"hubKeys,omitempty"`
}

// FleetMemberPhase says whether the hub hears a cluster.
type FleetMemberPhase string

// Values of FleetMemberPhase.
const (
	// FleetMemberReady: the hub hears the cluster.
	FleetMemberReady FleetMemberPhase = "Ready"
	// FleetMemberUnreachable: the hub has not heard the cluster for 30 s.
	FleetMemberUnreachable FleetMemberPhase = "Unreachable"
	// FleetMemberNameTaken: another cluster sends messages under this name. Neither gets a permit.
	FleetMemberNameTaken FleetMemberPhase = "NameTaken"
)

// FleetEnforcement says what holds changes in a cluster.
type FleetEnforcement string

// Values of FleetEnforcement.
const (
	// FleetEnforcementPolicy: admission policies.
	FleetEnforcementPolicy FleetEnforcement = "Policy"
	// FleetEnforcementWebhook: the webhook of the watcher.
	FleetEnforcementWebhook FleetEnforcement = "Webhook"
	// FleetEnforcementNone: nothing.
	FleetEnforcementNone FleetEnforcement = "None"
)
