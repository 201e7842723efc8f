package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutStatus is what users and other programs read of a release.
type RolloutStatus struct {
	// The generation of the Rollout that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Initial, Healthy, Progressing, Terminating, Disabling or Disabled.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// The current activity or wait of the Rollout, and the next thing to do.
	// +optional
	Message string `json:"message,omitempty"`
	// The current step, counted from 1; 0 without one.
	// +optional
	CurrentStepIndex int32 `json:"currentStepIndex"`
	// The state of the current step. It mirrors the state of canaryStatus or blueGreenStatus.
	// +optional
	CurrentStepState StepState `json:"currentStepState"`
	// Conditions of the Rollout.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
	// The release, when the strategy is canary.
	// +optional
	CanaryStatus *CanaryStatus `json:"canaryStatus,omitempty"`
	// The release, when the strategy is blueGreen.
	// +optional
	BlueGreenStatus *BlueGreenStatus `json:"blueGreenStatus,omitempty"`
	// The state of the machine that carries out the release. Only Sluice writes it.
	// +optional
	Sluice *SluiceStatus `json:"sluice,omitempty"`
	// Decisions that were accepted. Only Sluice writes them.
	// +optional
	// +listType=atomic
	Approvals []Approval `json:"approvals,omitempty"`
	// The verdict of the metrics about the release under way. Only Sluice writes it.
	// +optional
	Analysis *AnalysisStatus `json:"analysis,omitempty"`
	// What the Rollout remembers of its fleet. Only Sluice writes it.
	// +optional
	Fleet *RolloutFleetStatus `json:"fleet,omitempty"`
	// A command for the release: sluice abort, retry and approve --force write it, and the
	// executor removes it.
	// +optional
	Command *Command `json:"command,omitempty"`
}

// CommonStatus is what canary and blue-green releases have in common.
type CommonStatus struct {
	// The generation of the workload that was seen last.
	// +optional
	ObservedWorkloadGeneration int64 `json:"observedWorkloadGeneration,omitempty"`
	// The id of the release: the label rollouts.kruise.io/rollout-id of the workload, or the new revision.
	// +optional
	ObservedRolloutID string `json:"observedRolloutID,omitempty"`
	// Hash of the steps that the release follows.
	// +optional
	RolloutHash string `json:"rolloutHash,omitempty"`
	// The revision that serves while the release is under way.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// Value of the label that tells the new pods apart.
	// +optional
	PodTemplateHash string `json:"podTemplateHash,omitempty"`
	// The current step, counted from 1.
	// +optional
	CurrentStepIndex int32 `json:"currentStepIndex,omitempty"`
	// The step that comes next, or -1 after the last. Set it to jump to another step.
	// +optional
	NextStepIndex int32 `json:"nextStepIndex,omitempty"`
	// The current part of finalising.
	// +optional
	FinalisingStep FinalisingStep `json:"finalisingStep,omitempty"`
	// The state of the current step. Set it from StepPaused to StepReady to approve.
	// +optional
	CurrentStepState StepState `json:"currentStepState,omitempty"`
	// The current activity of the workload.
	// +optional
	Message string `json:"message,omitempty"`
	// When the state last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
}

// CanaryStatus is the state of a partition-style or canary-style release.
type CanaryStatus struct {
	CommonStatus `json:",inline"`
	// The revision being released: the value of the label that tells its pods apart, such as their pod-template-hash. Absent until the
	// controller of the workload has made the revision.
	// +optional
	CanaryRevision string `json:"canaryRevision,omitempty"`
	// How many pods run the new revision.
	// +optional
	CanaryReplicas int32 `json:"canaryReplicas"`
	// How many of them are ready.
	// +optional
	CanaryReadyReplicas int32 `json:"canaryReadyReplicas"`
}

// BlueGreenStatus is the state of a blue-green release.
type BlueGreenStatus struct {
	CommonStatus `json:",inline"`
	// The revision being released: the value of the label that tells its pods apart, such as their pod-template-hash. Absent until the
	// controller of the workload has made the revision.
	// +optional
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// How many pods run the new revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// How many of them are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
}

// Condition is one condition of a Rollout.
type Condition struct {
	// Type of the condition.
	Type ConditionType `json:"type"`
	// True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// When the condition was last written.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty,omitzero"`
	// When the status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Why the condition has its status, as one word.
	// +optional
	Reason Reason `json:"reason,omitempty"`
	// Why the condition has its status, and what to do next.
	// +optional
	Message string `json:"message,omitempty"`
}

// Common returns the status fields that all styles have: a part of canaryStatus or of blueGreenStatus. It is nil before an executor
// has reconciled the Rollout for the first time.
func (s *RolloutStatus) Common() *CommonStatus {
	switch {
	case s.CanaryStatus != nil:
		return &s.CanaryStatus.CommonStatus
	case s.BlueGreenStatus != nil:
		return &s.BlueGreenStatus.CommonStatus
	}
	return nil
}
