package analysis

import "fmt"

// Definition is a metric as a template writes it; [Parse] makes a valid [Metric] of it. Durations are written as in 30s or 5m.
type Definition struct {
	// Name tells the metrics of an analysis apart.
	Name string `json:"name"`
	// Interval is the time between two measurements. A comparison takes what happens in one interval for one event: let it be no shorter
	// than bursts of errors last, or a burst of the canary may pass for a worse canary.
	Interval string `json:"interval"`
	// Count is how many conclusive measurements are taken; 0 means as many as the step has time for. A comparison with passAfter
	// asks a person after so many that left it undecided.
	Count int32 `json:"count,omitempty"`
	// FailureLimit is how many failing measurements are tolerated, InconclusiveLimit how many inconclusive ones.
	FailureLimit      int32 `json:"failureLimit,omitempty"`
	InconclusiveLimit int32 `json:"inconclusiveLimit,omitempty"`
	// Settle is how long after a change of traffic nothing is measured yet.
	Settle string `json:"settle,omitempty"`
	// Window is how far back the queries look. Absent, it is the longest range that the queries write.
	Window string `json:"window,omitempty"`
	// MinSamples makes a measurement of too few requests noData.
	MinSamples *MinSamplesDefinition `json:"minSamples,omitempty"`
	// NoData and Error say what follows when there is nothing to judge, or no answer.
	NoData *PolicyDefinition `json:"noData,omitempty"`
	Error  *PolicyDefinition `json:"error,omitempty"`
	// DryRun records and never decides.
	DryRun bool `json:"dryRun,omitempty"`
	// Query is the provider's query for the value; a comparison has queries of its own.
	Query string `json:"query,omitempty"`
	// Reduce makes one statement of several series: max, min, sum, avg, any or all.
	Reduce string `json:"reduce,omitempty"`
	// PassWhen and FailWhen are CEL expressions over value, values and args.
	PassWhen string `json:"passWhen,omitempty"`
	FailWhen string `json:"failWhen,omitempty"`
	// Compare compares the canary with the stable group instead of a value with limits.
	Compare *CompareDefinition `json:"compare,omitempty"`
}

// MinSamplesDefinition is the query that counts the requests behind a measurement, and how many there must be.
type MinSamplesDefinition struct {
	Query   string  `json:"query"`
	AtLeast float64 `json:"atLeast"`
}

// PolicyDefinition is what follows from measurements without data or answer: Hold, Fail, or for noData also Pass. Hold asks a
// person after the deadline. Fail counts the measurement as failing, with a deadline only once that has passed.
type PolicyDefinition struct {
	Policy   string `json:"policy,omitempty"`
	Deadline string `json:"deadline,omitempty"`
}

// CompareDefinition compares rates of bad requests. Exactly one of Counts and Latency is set.
type CompareDefinition struct {
	Counts  *CountsDefinition  `json:"counts,omitempty"`
	Latency *LatencyDefinition `json:"latency,omitempty"`
	// Alpha is the chance of ever failing a canary that is no worse. Absent, it is 0.01.
	Alpha float64 `json:"alpha,omitempty"`
	// TolerateRatio is how many times the stable group's rate is still no worse. Absent, it is 1. Beyond it, less
	// than 15 % more are still taken for no worse, however much traffic there is.
	TolerateRatio float64              `json:"tolerateRatio,omitempty"`
	PassAfter     *PassAfterDefinition `json:"passAfter,omitempty"`
}

// CountsDefinition holds the queries that count requests over one interval: increase(...[{{args.interval}}]), or counters as they
// are over a longer range, such as requests_total[6m], which are then counted exactly.
type CountsDefinition struct {
	CanaryBad   string `json:"canaryBad"`
	CanaryTotal string `json:"canaryTotal"`
	StableBad   string `json:"stableBad"`
	StableTotal string `json:"stableTotal"`
}

// LatencyDefinition holds the queries for the buckets of both groups' latency, by le, counted like CountsDefinition. Bad are requests
// slower than the bucket's bound that lies nearest to this quantile of the stable group. Absent, the quantile is 0.99.
type LatencyDefinition struct {
	Canary   string  `json:"canary"`
	Stable   string  `json:"stable"`
	Quantile float64 `json:"quantile,omitempty"`
}

// PassAfterDefinition is the evidence that passes: so many requests to the canary, which speak against it being worse by this ratio.
type PassAfterDefinition struct {
	Samples  float64 `json:"samples"`
	MaxRatio float64 `json:"maxRatio"`
}

// FieldError says which field of a metric is wrong, and how to mend it.
type FieldError struct {
	// Field is the path inside the metric, such as minSamples.query.
	Field string
	// Problem says what is wrong and what to do, without the field's name in front.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
