package api

// Metric is measured again and again; what the measurements say decides about the release.
// It either measures one value, which passWhen and failWhen judge, or compares the canary
// with the stable version.
//
// +kubebuilder:validation:XValidation:rule="has(self.compare) || has(self.prometheus.query)",message="there is nothing to measure: give prometheus.query, or compare"
// +kubebuilder:validation:XValidation:rule="!has(self.compare) || !has(self.prometheus.query)",message="prometheus.query and compare are two measurements: make two metrics of them"
// +kubebuilder:validation:XValidation:rule="has(self.compare) || has(self.passWhen) || has(self.failWhen)",message="nothing says what passes: give passWhen, failWhen, or both"
// +kubebuilder:validation:XValidation:rule="!has(self.compare) || !(has(self.reduce) || has(self.passWhen) || has(self.failWhen))",message="a comparison decides by evidence: remove reduce, passWhen and failWhen, or make a second metric of them"
// +kubebuilder:validation:XValidation:rule="!has(self.compare) || !has(self.window)",message="a comparison counts each request once, over the interval: remove window"
// +kubebuilder:validation:XValidation:rule="!has(self.compare) || ((!has(self.failureLimit) || self.failureLimit == 0) && (!has(self.inconclusiveLimit) || self.inconclusiveLimit == 0))",message="a comparison decides by evidence, not by the number of failures: remove failureLimit and inconclusiveLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.compare) || !has(self.count) || has(self.compare.passAfter)",message="count limits how long a comparison waits for the evidence of compare.passAfter: give that, or remove count"
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.failureLimit) || self.failureLimit < self.count",message="with a failureLimit as large as count the metric could never fail: let it be less than count"
// +kubebuilder:validation:XValidation:rule="!has(self.count) || !has(self.inconclusiveLimit) || self.inconclusiveLimit == 0 || self.inconclusiveLimit + (has(self.failureLimit) ? self.failureLimit : 0) < self.count",message="failureLimit and inconclusiveLimit together must be less than count, or the metric could end without one measurement that passed"
// +kubebuilder:validation:XValidation:rule="!has(self.inconclusiveLimit) || self.inconclusiveLimit == 0 || (has(self.passWhen) && has(self.failWhen)) || has(self.compare)",message="without both passWhen and failWhen no measurement is inconclusive: remove inconclusiveLimit, or give both"
// +kubebuilder:validation:XValidation:rule="!has(self.noData) || !has(self.noData.deadline) || !self.noData.deadline.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || !self.interval.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || duration(self.noData.deadline) >= duration(self.interval)",message="with noData.deadline shorter than interval the first gap would end it: give at least the interval"
// +kubebuilder:validation:XValidation:rule="!has(self.error) || !has(self.error.deadline) || !self.error.deadline.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || !self.interval.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || duration(self.error.deadline) >= duration(self.interval)",message="with error.deadline shorter than interval the first error would end it: give at least the interval"
type Metric struct {
	// Name of the metric, in small letters, digits and dashes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Time between two measurements, from 1s to 24h.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="the time between two measurements is from 1s to 24h"
	Interval Duration `json:"interval"`
	// Number of measurements that decide. Absent: as many as the step has time for. A comparison
	// with passAfter asks a person when so many have left it undecided.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
	// Number of failing measurements that are tolerated. Absent: none, the first one decides.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailureLimit int32 `json:"failureLimit,omitempty"`
	// Number of measurements that may meet neither passWhen nor failWhen; one more asks a
	// person. Absent: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InconclusiveLimit int32 `json:"inconclusiveLimit,omitempty"`
	// Time after each change of traffic in which nothing is measured. Absent: none. The time
	// that the queries look back over is waited for in any case, so that no measurement sees
	// the traffic from before.
	// +optional
	Settle Duration `json:"settle,omitempty"`
	// How far back the queries look. Absent: the longest range that they write.
	// +optional
	Window Duration `json:"window,omitempty"`
	// A measurement of fewer requests than this counts as noData, not as a verdict.
	// +optional
	MinSamples *MinSamples `json:"minSamples,omitempty"`
	// The consequence of an answer without data: no series, NaN, or too few samples.
	// +optional
	NoData *NoDataPolicy `json:"noData,omitempty"`
	// The consequence of a missing answer of the provider, or of one that cannot be judged.
	// +optional
	Error *ErrorPolicy `json:"error,omitempty"`
	// Where to measure, and for a metric without compare, what.
	Prometheus Prometheus `json:"prometheus"`
	// How several series become one result. max, min, sum and avg make one value of them;
	// with all, every series has to pass; with any, one is enough. Without it, an answer of several
	// series is an error.
	// +optional
	Reduce Reducer `json:"reduce,omitempty"`
	// CEL expression over value, values and args that is true when the measurement passes, such
	// as "value >= 0.99". Without failWhen, everything else fails.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PassWhen string `json:"passWhen,omitempty"`
	// CEL expression over value, values and args that is true when the measurement fails, such
	// as "value < 0.95". Without passWhen, everything else passes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailWhen string `json:"failWhen,omitempty"`
	// Compare the canary with the stable version instead of a value with limits. The comparison
	// stays valid however often one looks.
	// +optional
	Compare *Compare `json:"compare,omitempty"`
	// Record the metric, and decide nothing by it.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// Duration is a length of time, such as 30s, 5m, 1.5h or 1h30m.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$')",message="write a duration such as 30s, 5m or 1h30m"
type Duration string

// PromQL is a query. {{args.NAME}} stands for the value of an argument.
//
// +kubebuilder:validation:MaxLength=8192
// +kubebuilder:validation:XValidation:rule="self.matches('[^[:space:]]')",message="write a query in PromQL: this one is empty"
type PromQL string

// MinSamples is the least number of requests that a measurement may judge.
type MinSamples struct {
	// PromQL that counts the requests behind a measurement.
	Query PromQL `json:"query"`
	// How many there must be.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	AtLeast float64 `json:"atLeast"`
}

// NoDataPolicy says what follows when there is nothing to judge.
//
// +kubebuilder:validation:XValidation:rule="!has(self.policy) || self.policy != 'Pass' || !has(self.deadline)",message="Pass passes at once and waits for no deadline: remove deadline"
type NoDataPolicy struct {
	// Hold (the default) holds the release, and asks a person after the deadline. Fail counts the
	// measurement as failing, with a deadline once that has passed. Pass counts it as passing.
	// +optional
	// +kubebuilder:validation:Enum=Hold;Pass;Fail
	Policy string `json:"policy,omitempty"`
	// How long to wait for something to judge. Absent: 5m with Hold, or twice the interval if
	// that is longer; no time with Fail.
	// +optional
	Deadline Duration `json:"deadline,omitempty"`
}

// ErrorPolicy is the consequence of a failed measurement.
type ErrorPolicy struct {
	// Hold (the default) holds the release, and asks a person after the deadline. Fail counts the
	// measurement as failing, with a deadline once that has passed. A failed
	// measurement never passes.
	// +optional
	// +kubebuilder:validation:Enum=Hold;Fail
	Policy string `json:"policy,omitempty"`
	// How long to wait for an answer. Absent: 10m with Hold, or twice the interval if that is
	// longer; no time with Fail.
	// +optional
	Deadline Duration `json:"deadline,omitempty"`
}

// Reducer makes one statement of several series.
//
// +kubebuilder:validation:Enum=max;min;sum;avg;any;all
type Reducer string
