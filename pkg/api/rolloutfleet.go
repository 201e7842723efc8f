package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FleetReference names the FleetRollout of a hub that governs a Rollout.
type FleetReference struct {
	// Namespace of the FleetRollout on the hub.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the FleetRollout.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// String returns the namespace and the name, with a slash between them.
func (r FleetReference) String() string { return r.Namespace + "/" + r.Name }

// MaxServedVersions is how many versions a Rollout of a fleet remembers.
const MaxServedVersions = 5

// RolloutFleetStatus is what a Rollout that a FleetRollout governs remembers.
type RolloutFleetStatus struct {
	// The FleetRollout that it is about.
	FleetRollout FleetReference `json:"fleetRollout"`
	// The last permit of the hub.
	// +optional
	Permit *FleetPermit `json:"permit,omitempty"`
	// The template that results from the images of a permit.
	// +optional
	Delivered *FleetDelivered `json:"delivered,omitempty"`
	// The permit that a release has used up, and that release.
	// +optional
	Used *FleetPermitUse `json:"used,omitempty"`
	// The version of the release under way, or of the last one.
	// +optional
	Releasing FleetVersion `json:"releasing,omitempty"`
	// The versions that all pods have run, the present one first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Served []FleetVersion `json:"served,omitempty"`
	// The versions that were withdrawn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Blocked []FleetBlock `json:"blocked,omitempty"`
	// Why the present version runs although no permit allows it, as one word. Absent if it does not.
	// +optional
	Unpermitted string `json:"unpermitted,omitempty"`
	// The release that goes on without permits.
	// +optional
	Override *FleetOverride `json:"override,omitempty"`
	// Since when less than 90 % of the wanted pods are ready.
	// +optional
	UnreadySince *metav1.MicroTime `json:"unreadySince,omitempty"`
}

// FleetDelivered is the template that results from the images of a permit.
type FleetDelivered struct {
	// Epoch of the permit.
	Epoch int64 `json:"epoch"`
	// Number of the permit in its epoch.
	Seq int64 `json:"seq"`
	// Hash of the pod template, as in a permit.
	Revision string `json:"revision"`
}

// FleetPermitUse says which release has used up a permit.
type FleetPermitUse struct {
	// Epoch of the permit.
	Epoch int64 `json:"epoch"`
	// Number of the permit in its epoch.
	Seq int64 `json:"seq"`
	// The release, as in status.sluice.epoch. 0 if it is not known.
	// +optional
	Release int64 `json:"release,omitempty"`
	// UID of its workload.
	// +optional
	WorkloadUID types.UID `json:"workloadUID,omitempty"`
	// Its version, as in status.sluice.canaryRevision.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Why that release ended without success, as one word.
	// +optional
	Failure string `json:"failure,omitempty"`
}

// FleetOverride lets one release go on without permits.
type FleetOverride struct {
	// The release, as in status.sluice.epoch.
	Release int64 `json:"release"`
	// The user who overrode the fleet. Absent if the release began before the fleet governed the Rollout.
	// +optional
	Actor string `json:"actor,omitempty"`
	// Why.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Epoch of the last permit at that time. The hub can still abort the release with a later permit.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// Number of that permit.
	// +optional
	Seq int64 `json:"seq,omitempty"`
}

// FleetLocalPauses says who ends the pauses in the steps of a cluster.
//
// +kubebuilder:validation:Enum=Pass;Keep
type FleetLocalPauses string

// Values of FleetLocalPauses.
const (
	// FleetLocalPausesPass: the permit is the approval of the pauses.
	FleetLocalPausesPass FleetLocalPauses = "Pass"
	// FleetLocalPausesKeep: a person or a program approves them in each cluster.
	FleetLocalPausesKeep FleetLocalPauses = "Keep"
)

// Words for which a Rollout waits for its fleet. They are also reasons of reports.
const (
	// FleetReasonAwaitingPermit: no permit allows this version yet.
	FleetReasonAwaitingPermit = "AwaitingPermit"
	// FleetReasonPermitUsed: the permit is used up by an earlier release.
	FleetReasonPermitUsed = "PermitUsed"
	// FleetReasonAtHold: the permit goes no further.
	FleetReasonAtHold = "AtHold"
	// FleetReasonPermitExpired: the time of the permit is over.
	FleetReasonPermitExpired = "PermitExpired"
	// FleetReasonPlanChanged: the steps were changed after the permit was given.
	FleetReasonPlanChanged = "PlanChanged"
	// FleetReasonBlocked: the version was withdrawn.
	FleetReasonBlocked = "Blocked"
	// FleetReasonVersionUnknown: it is not known whether pods run the withdrawn version, because they are older than the Rollout's fleet.
	FleetReasonVersionUnknown = "VersionUnknown"
	// FleetReasonContested: the version was withdrawn, and a client has applied it again to a kind of workload that cannot be left held: its pods that
	// are lost come back in that version.
	FleetReasonContested = "Contested"
	// FleetReasonContainersDiffer: the permit sets images, and they are not those of all containers of the workload.
	FleetReasonContainersDiffer = "ContainersDiffer"
	// FleetReasonTakenBack: the executor has set the images of the permit, and a client has changed the template since.
	FleetReasonTakenBack = "TakenBack"
	// FleetReasonNoWayBack: the version was withdrawn, and no earlier version is known.
	FleetReasonNoWayBack = "NoWayBack"
)

// Reasons for which a version runs without a permit.
const (
	// FleetUnpermittedFirstInstall: the workload was created under the Rollout of a fleet.
	FleetUnpermittedFirstInstall = "FirstInstall"
	// FleetUnpermittedRecreated: the workload was deleted and created again.
	FleetUnpermittedRecreated = "Recreated"
	// FleetUnpermittedNotHeld: no policy has held the change, or a user has released the workload.
	FleetUnpermittedNotHeld = "NotHeld"
)
