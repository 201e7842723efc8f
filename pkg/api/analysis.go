package api

// Analysis gates a step, or the whole release, on metrics.
type Analysis struct {
	// The templates whose metrics are measured. All of them must agree.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Templates []AnalysisTemplateRef `json:"templates"`
	// Values for the arguments that the templates declare. Arguments such as namespace,
	// canaryService, step and weight are known to every template and need no value here.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Args []AnalysisArg `json:"args,omitempty"`
	// The action when a metric fails: Abort (traffic back to stable at once), Rollback
	// (the stable pod template as well) or Pause. Empty takes the strategy's onFailure.
	// +optional
	OnFailure FailureAction `json:"onFailure,omitempty"`
	// A passing analysis stands for the approval that the step waits for. Without it, a step
	// that waits for approval still does when its metrics have passed.
	// +optional
	AutoPromote bool `json:"autoPromote,omitempty"`
	// Measure and record, but decide nothing: the release goes on as if it had no analysis.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// ReleaseAnalysis watches the whole release, between steps and during pauses as well.
type ReleaseAnalysis struct {
	Analysis `json:",inline"`
	// The step from which the metrics are measured, counted from 1. Absent means the first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	StartingStep *int32 `json:"startingStep,omitempty"`
}

// AnalysisTemplateRef names an AnalysisTemplate or a ClusterAnalysisTemplate.
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
