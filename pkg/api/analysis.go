package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Analysis gates a step on metrics.
type Analysis struct {
	// The templates whose metrics are measured.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Templates []AnalysisTemplateRef `json:"templates"`
	// Values for the arguments of the templates.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Args []AnalysisArg `json:"args,omitempty"`
	// What happens when a metric fails: Abort (traffic back to stable at once), Rollback
	// (the stable pod template as well) or Pause. Empty takes the strategy's onFailure.
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
	// A passing analysis stands for the approval that the step waits for.
	// +optional
	AutoPromote bool `json:"autoPromote,omitempty"`
	// Measure and record, but decide nothing.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// ReleaseAnalysis watches the whole release.
type ReleaseAnalysis struct {
	Analysis `json:",inline"`
	// The step from which the metrics are measured, counted from 1. Absent means the first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	StartingStep *int32 `json:"startingStep,omitempty"`
}

// AnalysisTemplateRef names an analysis template.
type AnalysisTemplateRef struct {
	// Name of the template.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The template is a ClusterAnalysisTemplate, not one of the Rollout's namespace.
	// +optional
	ClusterScope bool `json:"clusterScope,omitempty"`
}

// AnalysisArg is a value for an argument of a template.
type AnalysisArg struct {
	// Name of the argument.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Value of the argument.
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// MetricStatus is what the analyzer has found out about one metric.
type MetricStatus struct {
	// Name of the metric.
	Name string `json:"name"`
	// The step that the metric gates; 0 for the whole release.
	// +optional
	Step int32 `json:"step,omitempty"`
	// The pause or analysis that the counts belong to.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// What the measurements say so far.
	// +optional
	Phase MetricPhase `json:"phase,omitempty"`
	// Measurements that passed.
	// +optional
	Passed int32 `json:"passed,omitempty"`
	// Measurements that failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Measurements that allowed no decision.
	// +optional
	Inconclusive int32 `json:"inconclusive,omitempty"`
	// Measurements that found no data.
	// +optional
	NoData int32 `json:"noData,omitempty"`
	// Measurements that went wrong.
	// +optional
	Errors int32 `json:"errors,omitempty"`
	// The value measured last, as text.
	// +optional
	LastValue string `json:"lastValue,omitempty"`
	// When the value was measured.
	// +optional
	LastTime *metav1.MicroTime `json:"lastTime,omitempty"`
	// The metric is recorded and decides nothing.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// Why the metric stands where it stands, and what to do about it.
	// +optional
	Message string `json:"message,omitempty"`
}

// MetricPhase is the verdict of a metric so far.
type MetricPhase string

// Values of MetricPhase. Only MetricPassed lets a gated step go on.
const (
	MetricRunning      MetricPhase = "Running"
	MetricPassed       MetricPhase = "Passed"
	MetricFailed       MetricPhase = "Failed"
	MetricInconclusive MetricPhase = "Inconclusive"
	MetricHeld         MetricPhase = "Held"
)
