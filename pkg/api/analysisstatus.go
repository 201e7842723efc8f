package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnalysisStatus is what metrics say about the release under way.
type AnalysisStatus struct {
	// The analysis of the current step.
	// +optional
	Step *AnalysisRun `json:"step,omitempty"`
	// The analysis of the whole release.
	// +optional
	Release *AnalysisRun `json:"release,omitempty"`
}

// AnalysisRun is one analysis, from when its metrics are measured until it is over. Epoch
// and PauseSeq bind it to one release and one stay at a step: of another, it says nothing.
type AnalysisRun struct {
	// The verdict of all metrics together: Running, Passing, Passed, Waiting, Inconclusive or Failed.
	// +optional
	Phase AnalysisPhase `json:"phase,omitempty"`
	// Why the analysis stands where it stands, and what to do about it.
	// +optional
	Message string `json:"message,omitempty"`
	// The release that is analysed.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// The step that is gated, counted from 1; of a whole release, the step that it is at.
	// +optional
	Step int32 `json:"step,omitempty"`
	// The stay at the step that is gated; of a whole release, the one that it began with.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// When the analysis began.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// When the traffic changed last. Measurements of the time before do not count.
	// +optional
	RoutedAt *metav1.MicroTime `json:"routedAt,omitempty"`
	// The analyzer writes again by this time. After that the release is held, because no analyzer may be running.
	RenewBy *metav1.MicroTime `json:"renewBy,omitempty"`
	// When nothing was left to measure.
	// +optional
	EndedAt *metav1.MicroTime `json:"endedAt,omitempty"`
	// The metrics, in the order of the templates.
	// +optional
	// +listType=atomic
	Metrics []MetricStatus `json:"metrics,omitempty"`
}

// MetricStatus is what has been found out about one metric.
type MetricStatus struct {
	// Name of the metric.
	Name string `json:"name"`
	// The template that it comes from, as Kind/name.
	// +optional
	Template string `json:"template,omitempty"`
	// The verdict of the measurements so far: Running, Passed, Failed, Inconclusive or Waiting.
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
	// The value measured last, or the values, as text.
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
	MetricWaiting      MetricPhase = "Waiting"
)

// AnalysisPhase is what all metrics of an analysis say together.
type AnalysisPhase string

// Values of AnalysisPhase. Only AnalysisPassed may stand for an approval.
const (
	// AnalysisRunning: a metric is not done; wait.
	AnalysisRunning AnalysisPhase = "Running"
	// AnalysisPassing: nothing is against going on once the time of the step is up.
	AnalysisPassing AnalysisPhase = "Passing"
	// AnalysisPassed: every metric that decides has passed.
	AnalysisPassed AnalysisPhase = "Passed"
	// AnalysisWaiting: a metric waits for data or answers; hold.
	AnalysisWaiting AnalysisPhase = "Waiting"
	// AnalysisInconclusive: a metric cannot decide; hold, and ask a person.
	AnalysisInconclusive AnalysisPhase = "Inconclusive"
	// AnalysisFailed: a metric failed; do what onFailure says.
	AnalysisFailed AnalysisPhase = "Failed"
)
