package api

// Compare compares the canary with the stable version: how many of their requests are bad.
// Exactly one of Counts and Latency is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.counts) != has(self.latency)",message="compare exactly one of counts and latency: make two metrics of both"
// +kubebuilder:validation:XValidation:rule="!has(self.passAfter) || (self.passAfter.maxRatio >= 1.26 * (has(self.tolerateRatio) ? self.tolerateRatio : 1.0) && self.passAfter.maxRatio <= 18.9 * (has(self.tolerateRatio) ? self.tolerateRatio : 1.0))",message="passAfter.maxRatio must be from 1.26 to 18.9 times tolerateRatio, which is 1 where it is absent: nearer no evidence can tell them apart"
type Compare struct {
	// Compare how many requests failed.
	// +optional
	Counts *CompareCounts `json:"counts,omitempty"`
	// Compare how many requests were slow.
	// +optional
	Latency *CompareLatency `json:"latency,omitempty"`
	// The chance of ever failing a canary that is no worse, over the whole release: above 0, at
	// most 0.2. Absent: 0.01.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Maximum=0.2
	Alpha float64 `json:"alpha,omitempty"`
	// How many times the stable version's rate of bad requests is still fine, from 1 to 100.
	// Absent: 1, the canary must not be worse.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	TolerateRatio float64 `json:"tolerateRatio,omitempty"`
	// How long bursts of bad requests last, from 0s to 1h. Absent: 5m. The comparison learns from
	// the stable version's time before the release how unevenly bad requests come, and decides
	// nothing until it knows 12 times this length. 0s: bad requests come steadily, and no time
	// before the release is needed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}ms|[0-9]{1,5}([.][0-9]{1,3})?[smh])+$') || duration(self) <= duration('1h')",message="bursts last 1h at most: what lasts longer is how the version behaves"
	LongestBurst Duration `json:"longestBurst,omitempty"`
	// The evidence with which the metric passes. Absent: the comparison can only fail, and is
	// fine with going on as long as it has not.
	// +optional
	PassAfter *PassAfter `json:"passAfter,omitempty"`
}

// CompareCounts holds the PromQL that counts requests over one interval: increase(...) over
// [{{args.interval}}], or counters over a longer range, such as requests_total[6m].
type CompareCounts struct {
	// Requests of the canary that failed.
	CanaryBad PromQL `json:"canaryBad"`
	// All requests of the canary.
	CanaryTotal PromQL `json:"canaryTotal"`
	// Requests of the stable version that failed.
	StableBad PromQL `json:"stableBad"`
	// All requests of the stable version.
	StableTotal PromQL `json:"stableTotal"`
}

// CompareLatency holds the PromQL for the buckets of both versions' latency.
type CompareLatency struct {
	// Buckets of the canary by le, counted over one interval like the counts.
	Canary PromQL `json:"canary"`
	// Buckets of the stable version by le, counted over one interval like the counts.
	Stable PromQL `json:"stable"`
	// Slow is a request that takes longer than this quantile of the stable version's requests,
	// from 0.5 to below 1. Absent: 0.99.
	// +optional
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:validation:ExclusiveMaximum=true
	Quantile float64 `json:"quantile,omitempty"`
}

// PassAfter is the evidence with which a comparison passes.
type PassAfter struct {
	// The least number of requests that the canary has answered.
	// +kubebuilder:validation:Minimum=1
	Samples float64 `json:"samples"`
	// The requests speak against the canary being worse by this ratio: 1.26 to 18.9 times
	// tolerateRatio.
	MaxRatio float64 `json:"maxRatio"`
}
