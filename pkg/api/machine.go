package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxTransitions is how many transitions the status keeps.
const MaxTransitions = 8

// SluiceStatus is the state machine's own memory. Epoch, PauseSeq and TransitionSeq never
// go down, so that ids built from them never repeat.
type SluiceStatus struct {
	// Counts the releases of this Rollout.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The current step, counted from 1.
	// +optional
	Step int32 `json:"step,omitempty"`
	// The state of the machine.
	// +optional
	State string `json:"state,omitempty"`
	// Counts the pauses and analyses that were entered.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// When the state was entered.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`
	// When the progress deadline of the step began to count. It begins again after a pause of
	// the Rollout, and after a problem that a person had to fix.
	// +optional
	StepSince *metav1.MicroTime `json:"stepSince,omitempty"`
	// When the machine looks again, even if nothing happens.
	// +optional
	WakeAt *metav1.MicroTime `json:"wakeAt,omitempty"`
	// Counts the transitions.
	// +optional
	TransitionSeq int64 `json:"transitionSeq,omitempty"`
	// The latest transitions, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Transitions []Transition `json:"transitions,omitempty"`
	// The scripts that made the current routing.
	// +optional
	// +listType=atomic
	Scripts []ScriptStatus `json:"scripts,omitempty"`
	// UID of the workload that the release is about.
	// +optional
	WorkloadUID types.UID `json:"workloadUID,omitempty"`
	// The revision that serves while the release is under way.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// Digest of the pod template that is being released, or that was released last.
	// +optional
	CanaryRevision string `json:"canaryRevision,omitempty"`
	// Value of the label that tells the pods of CanaryRevision apart, such as their pod-template-hash. Absent until the controller of the
	// workload has made the revision.
	// +optional
	CanaryHash string `json:"canaryHash,omitempty"`
	// The revisions that served last, newest first, as far as rollbackWindow goes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=11
	RecentRevisions []string `json:"recentRevisions,omitempty"`
	// How many pods a rollback in batches has to bring back, those included that are back already. 0 in every other release.
	// +optional
	RollbackReplicas int32 `json:"rollbackReplicas,omitempty"`
	// Hash of the steps that the release follows.
	// +optional
	PlanHash string `json:"planHash,omitempty"`
	// Number of the steps of that plan.
	// +optional
	Steps int32 `json:"steps,omitempty"`
	// The id that the owner of the workload gave the release.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// Share of the requests that the new version gets now, such as 10%, or matches if a gateway selects requests by their content. Absent
	// outside of a release, and if the number of pods or a TrafficRouting decides.
	// +optional
	Traffic string `json:"traffic,omitempty"`
	// Digest of the routing that was applied last.
	// +optional
	RouteDigest string `json:"routeDigest,omitempty"`
	// Why the release is being finalised.
	// +optional
	FinaliseReason FinaliseReason `json:"finaliseReason,omitempty"`
	// How far finalising has come.
	// +optional
	Finalise string `json:"finalise,omitempty"`
	// When the grace period under way ends.
	// +optional
	GraceUntil *metav1.MicroTime `json:"graceUntil,omitempty"`
	// The purpose of the grace period under way.
	// +optional
	GraceFor string `json:"graceFor,omitempty"`
	// Gateway objects that another client writes as well.
	// +optional
	// +listType=atomic
	Contests []Contest `json:"contests,omitempty"`
}

// Contest counts how often the same foreign content came back on an object.
type Contest struct {
	// The object, as Kind/name.
	Object string `json:"object"`
	// Digest of the foreign content.
	Digest string `json:"digest"`
	// The version of the object that was counted last.
	// +optional
	Seen string `json:"seen,omitempty"`
	// The field manager that wrote it.
	// +optional
	Manager string `json:"manager,omitempty"`
	// How often it came back since Since.
	Count int32 `json:"count"`
	// When it was seen first.
	Since metav1.MicroTime `json:"since"`
	// Until when Sluice leaves the object alone.
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`
}

// Transition is one change of state.
type Transition struct {
	// Number of the transition.
	Seq int64 `json:"seq"`
	// When it happened.
	Time metav1.MicroTime `json:"time"`
	// The state before.
	// +optional
	From string `json:"from,omitempty"`
	// The state after.
	To string `json:"to"`
	// The step it happened in, counted from 1.
	// +optional
	Step int32 `json:"step,omitempty"`
	// Share of the requests that the new version got at that time, in the form of status.sluice.traffic.
	// +optional
	Traffic string `json:"traffic,omitempty"`
	// Why, as one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Why, as a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// The user, principal or component that caused it.
	// +optional
	Actor string `json:"actor,omitempty"`
}

// ScriptStatus says which script made the routing of an object.
type ScriptStatus struct {
	// The object, as Kind/name.
	Object string `json:"object"`
	// Where the script comes from: "built-in", "ConfigMap namespace/name" or "directory".
	Source string `json:"source"`
	// The key or path of the script in its source.
	// +optional
	Key string `json:"key,omitempty"`
	// Hash of the script's text.
	// +optional
	Hash string `json:"hash,omitempty"`
}

// GetTransitionSeq returns the number of the latest transition, 0 without one.
func (s *SluiceStatus) GetTransitionSeq() int64 {
	if s == nil {
		return 0
	}
	return s.TransitionSeq
}

// GetTraffic returns the new version's share of the requests, "" if the status has none.
func (s *SluiceStatus) GetTraffic() string {
	if s == nil {
		return ""
	}
	return s.Traffic
}

// GetState returns the state of the machine, "" before the first run of the Rollout.
func (s *SluiceStatus) GetState() string {
	if s == nil {
		return ""
	}
	return s.State
}
