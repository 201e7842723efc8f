package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnalysisTemplate says which metrics tell a good release from a bad one. Rollouts of the
// same namespace name it under analysis.templates.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=analysistemplates,shortName=sat,categories=sluice
// +kubebuilder:printcolumn:name="FIRST_METRIC",type="string",JSONPath=".spec.metrics[0].name",description="The first of the metrics"
// +kubebuilder:printcolumn:name="PROVIDER",type="string",JSONPath=".spec.metrics[0].prometheus.address",description="Where the first of the metrics is measured"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type AnalysisTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The metrics, and the arguments that they take.
	Spec AnalysisTemplateSpec `json:"spec"`
}

// AnalysisTemplateList is a list of AnalysisTemplates.
//
// +kubebuilder:object:root=true
type AnalysisTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AnalysisTemplate `json:"items"`
}

// ClusterAnalysisTemplate is an AnalysisTemplate for Rollouts of every namespace, which name
// it with clusterScope: true. A Secret that it names is read from the Rollout's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusteranalysistemplates,scope=Cluster,shortName=csat,categories=sluice
// +kubebuilder:printcolumn:name="FIRST_METRIC",type="string",JSONPath=".spec.metrics[0].name",description="The first of the metrics"
// +kubebuilder:printcolumn:name="PROVIDER",type="string",JSONPath=".spec.metrics[0].prometheus.address",description="Where the first of the metrics is measured"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ClusterAnalysisTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The metrics, and the arguments that they take.
	Spec AnalysisTemplateSpec `json:"spec"`
}

// ClusterAnalysisTemplateList is a list of ClusterAnalysisTemplates.
//
// +kubebuilder:object:root=true
type ClusterAnalysisTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterAnalysisTemplate `json:"items"`
}

// AnalysisTemplateSpec holds metrics, and the arguments that they take.
type AnalysisTemplateSpec struct {
	// Arguments that differ from Rollout to Rollout. Queries, addresses and headers use one as
	// {{args.NAME}}, the expressions passWhen and failWhen as args.NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Args []TemplateArg `json:"args,omitempty"`
	// The metrics to measure. A release passes when all metrics pass.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Metrics []Metric `json:"metrics"`
}

// TemplateArg is an argument that a template declares.
//
// +kubebuilder:validation:XValidation:rule="self.name != 'interval'",message="the argument interval is the interval of the metric: choose another name"
type TemplateArg struct {
	// Name of the argument. One with the name of a standard argument takes its place.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_-]*$`
	Name string `json:"name"`
	// The value for Rollouts that give none. Without it, every Rollout has to give one.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value *string `json:"value,omitempty"`
}

// Names of the standard arguments, which templates use without declaring them.
const (
	ArgNamespace      = "namespace"
	ArgRollout        = "rollout"
	ArgWorkload       = "workload"
	ArgStableService  = "stableService"
	ArgCanaryService  = "canaryService"
	ArgStableRevision = "stableRevision"
	ArgCanaryRevision = "canaryRevision"
	ArgStableHash     = "stableHash"
	ArgCanaryHash     = "canaryHash"
	ArgStep           = "step"
	ArgWeight         = "weight"
	ArgInterval       = "interval"
)
