package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Types of events about analyses.
const (
	TypeMeasured = "dev.sluice.analysis.measured.v1"
	TypeVerdict  = "dev.sluice.analysis.verdict.v1"
)

// Analysis identifies the run of analysis that an event describes. It is a part of [Measured] and of [Verdict].
type Analysis struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`

	Release *Release `json:"release,omitempty"`
	Step    *Step    `json:"step,omitempty"`
	// Scope is step or release: the part of the release that the metrics gate.
	Scope string `json:"scope"`
	// PauseSeq is the number of the stay at the step in which the run began.
	PauseSeq int64 `json:"pauseSeq"`
	// DryRun reports that the run decides nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// Measured is the data of an event of [TypeMeasured]: one measurement of one metric.
type Measured struct {
	Analysis
	Template string `json:"template"`
	Metric   string `json:"metric"`
	// Address is the address of the provider, and Queries are the queries that the analyzer sent to it.
	Address string  `json:"address"`
	Queries Queries `json:"queries"`
	// Window is the time range of the queries. The provider evaluated them for its end.
	Window Window `json:"window"`
	// Value is the judged value, and Values are the values of all series. Both are absent if the provider gave no answer.
	Value  *float64  `json:"value,omitempty"`
	Values []float64 `json:"values,omitempty"`
	Counts *Counts   `json:"counts,omitempty"`
	// Outcome is pass, fail, inconclusive, noData or error. Policy is the consequence of inconclusive or noData.
	Outcome string `json:"outcome"`
	Policy  string `json:"policy,omitempty"`
	// Phase is the phase of the metric after the measurement.
	Phase string `json:"phase"`
	// Reason is one word for programs, Message a sentence for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Queries are the queries of a measurement in the provider's language, with all arguments. A query that the metric does not have is empty.
type Queries struct {
	Value         string `json:"value,omitempty"`
	Samples       string `json:"samples,omitempty"`
	CanaryBad     string `json:"canaryBad,omitempty"`
	CanaryTotal   string `json:"canaryTotal,omitempty"`
	StableBad     string `json:"stableBad,omitempty"`
	StableTotal   string `json:"stableTotal,omitempty"`
	CanaryBuckets string `json:"canaryBuckets,omitempty"`
	StableBuckets string `json:"stableBuckets,omitempty"`
}

// Window is a time range. Both ends have the form of RFC 3339.
type Window struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// WindowOf returns the window of the given length that ends at a time.
func WindowOf(end time.Time, length time.Duration) Window {
	return Window{From: end.Add(-length).UTC().Format(time.RFC3339Nano), To: end.UTC().Format(time.RFC3339Nano)}
}

// Counts are the numbers of requests that a comparison counted in the window.
type Counts struct {
	CanaryBad   float64 `json:"canaryBad"`
	CanaryTotal float64 `json:"canaryTotal"`
	StableBad   float64 `json:"stableBad"`
	StableTotal float64 `json:"stableTotal"`
}

// Verdict is the data of an event of [TypeVerdict]: the phase of a run, or of one of its metrics, has changed.
type Verdict struct {
	Analysis
	// From and To are the phases of the run before and after. They are equal if only the phase of a metric has changed.
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is [CauseAnalysis].
	Cause   Cause           `json:"cause"`
	Message string          `json:"message"`
	Metrics []VerdictMetric `json:"metrics"`
}

// VerdictMetric is the state of one metric: its phase and the number of measurements of each outcome.
type VerdictMetric struct {
	Template     string `json:"template"`
	Name         string `json:"name"`
	Phase        string `json:"phase"`
	Passed       int32  `json:"passed"`
	Failed       int32  `json:"failed"`
	Inconclusive int32  `json:"inconclusive"`
	NoData       int32  `json:"noData"`
	Errors       int32  `json:"errors"`
	LastValue    string `json:"lastValue,omitempty"`
	DryRun       bool   `json:"dryRun,omitempty"`
	Message      string `json:"message"`
}

// NewMeasured returns the event of a measurement for a time. The same measurement always has the same id. digest is the digest of the metric's
// definition: after an owner has edited the metric, the analyzer may measure it again for the same time.
func NewMeasured(m Measured, digest string, at time.Time) (Event, error) {
	id := fmt.Sprintf("%s/measured/%s/%s/%s@%s/%d", m.UID, m.runID(), m.Template, m.Metric, digest, at.UnixMilli())
	return m.newEvent(TypeMeasured, id, at, m)
}

// NewVerdict returns the event of a verdict from measurements up to the time upTo; the zero time means no measurement. The same verdict always has
// the same id. digest changes when an owner edits a metric of the run.
func NewVerdict(v Verdict, digest string, upTo, now time.Time) (Event, error) {
	made := int64(0)
	if !upTo.IsZero() {
		made = upTo.UnixMilli()
	}
	v.Cause = CauseAnalysis
	return v.newEvent(TypeVerdict, fmt.Sprintf("%s/verdict/%s@%s/%d/%s", v.UID, v.runID(), digest, made, v.To), now, v)
}

// runID returns the common part of the event ids of one run.
func (a Analysis) runID() string {
	epoch := int64(0)
	if a.Release != nil {
		epoch = a.Release.Epoch
	}
	return fmt.Sprintf("%d/%d/%s", epoch, a.PauseSeq, a.Scope)
}

func (a Analysis) newEvent(kind, id string, at time.Time, data any) (Event, error) {
	of := Rollout{Cluster: a.Cluster, Namespace: a.Namespace, Name: a.Name, UID: a.UID}
	e := of.newEvent(kind, id, at)
	if a.UID == "" || a.Scope == "" {
		return Event{}, fmt.Errorf("build event %s: uid and scope must be set", id)
	}
	if err := e.SetData("application/json", data); err != nil {
		return Event{}, fmt.Errorf("encode data of event %s: %w", id, err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, fmt.Errorf("build event %s: %w", id, err)
	}
	return e, nil
}

// ParseMeasured reads what [NewMeasured] wrote.
func ParseMeasured(e Event) (m Measured, err error) {
	if e.Type() != TypeMeasured {
		return m, fmt.Errorf("read event %s: its type is %q, want %s", e.ID(), e.Type(), TypeMeasured)
	}
	if err := json.Unmarshal(e.Data(), &m); err != nil {
		return m, fmt.Errorf("read event %s: %w", e.ID(), err)
	}
	return m, nil
}
