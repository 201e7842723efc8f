package analysis

import (
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Metric is a metric of a template, parsed once into valid values. Limits can be reached, durations are positive, queries have all their arguments,
// and expressions compile.
type Metric struct {
	Name     string
	Interval time.Duration
	// Address is the base URL of the provider's HTTP API. The analyzer sends Headers with each query.
	Address string
	Headers map[string]string
	// Secret is the name of the Secret with credentials, in the Rollout's namespace; empty for none.
	Secret string
	// Timeout bounds one query.
	Timeout time.Duration
	// Count is the number of measurements; 0 means as long as the step lasts.
	Count                           int32
	FailureLimit, InconclusiveLimit int32
	// Settle and Window exclude old traffic: the first measurement is due when both have passed since the last change of traffic.
	Settle, Window time.Duration
	// MinSamples is nil if the metric requires no number of requests.
	MinSamples *MinSamples
	NoData     Policy
	Error      Policy
	DryRun     bool
	// Query is empty in a comparison.
	Query  string
	Reduce Reducer
	// Exactly one of Rule and Compare is set.
	Rule    *Rule
	Compare *Compare
}

// MinSamples is the least number of requests for a measurement.
type MinSamples struct {
	Query   string
	AtLeast float64
}

// Action is the consequence of measurements without data or answer.
type Action string

// Actions of a policy.
const (
	Hold Action = "Hold"
	Pass Action = "Pass"
	Fail Action = "Fail"
)

// Policy is an action, and how long to wait for conclusive measurements before it. After the deadline of Hold, a user must decide.
type Policy struct {
	Action   Action
	Deadline time.Duration
}

// Compare is the comparison of the canary with the stable group. Exactly one of Counts and Latency is set.
type Compare struct {
	Counts  *api.CompareCounts
	Latency *api.CompareLatency
	// Alpha is the highest chance that the comparison ever fails a canary that is no worse.
	Alpha float64
	// Clusters is the number of clusters of a fleet among which Alpha was shared; 0 or 1 if it was not.
	Clusters int32
	// Tolerate is the highest rate ratio that counts as no worse.
	Tolerate float64
	// LongestBurst is how long bursts of bad requests last at most; 0 if they come steadily.
	LongestBurst time.Duration
	// PassAfter is nil for a comparison that can only fail.
	PassAfter *api.PassAfter
}

// leastAlpha is the least share of alpha that a cluster of a fleet gets. With a smaller share, a comparison would need too many requests.
const leastAlpha = 1e-6

// ShareAlpha gives the comparison its share among the clusters of a fleet: alpha divided by their number, and at least 1e-6. The chance that any
// of the clusters fails a canary that is no worse then stays within alpha (the union bound).
func (c *Compare) ShareAlpha(clusters int32) {
	if clusters > 1 {
		c.Alpha, c.Clusters = max(c.Alpha/float64(clusters), min(c.Alpha, leastAlpha)), clusters
	}
}

// Queries are the queries to a provider for one measurement of a metric; queries that the metric does not have are empty.
type Queries struct {
	Value, Samples                                 string
	CanaryBad, CanaryTotal, StableBad, StableTotal string
	CanaryBuckets, StableBuckets                   string
}

// Queries returns the queries to send. All of them are instant queries for the time of the measurement.
func (m Metric) Queries() Queries {
	q := Queries{Value: m.Query}
	if m.MinSamples != nil {
		q.Samples = m.MinSamples.Query
	}
	if m.Compare == nil {
		return q
	}
	if c := m.Compare.Counts; c != nil {
		q.CanaryBad, q.CanaryTotal, q.StableBad, q.StableTotal = string(c.CanaryBad), string(c.CanaryTotal), string(c.StableBad), string(c.StableTotal)
	}
	if l := m.Compare.Latency; l != nil {
		q.CanaryBuckets, q.StableBuckets = string(l.Canary), string(l.Stable)
	}
	return q
}
