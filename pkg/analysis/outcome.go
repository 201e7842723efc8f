package analysis

import "time"

// Outcome is what one measurement says. Each outcome has a policy and a budget of its own; none of them stands for another.
type Outcome string

// Outcomes of a measurement.
const (
	// OutcomePass and OutcomeFail: the rule of the metric decided about a value.
	OutcomePass Outcome = "pass"
	OutcomeFail Outcome = "fail"
	// OutcomeInconclusive: there is a value, and the rule says neither.
	OutcomeInconclusive Outcome = "inconclusive"
	// OutcomeNoData: the provider answered that there is nothing to judge, or too little.
	OutcomeNoData Outcome = "noData"
	// OutcomeError: the provider did not answer, or with something that cannot be judged.
	OutcomeError Outcome = "error"
)

// isConclusive outcomes are made of a value. They end a time without data or answers.
func (o Outcome) isConclusive() bool {
	return o == OutcomePass || o == OutcomeFail || o == OutcomeInconclusive
}

// Measurement is one judged measurement.
type Measurement struct {
	// At is the time the queries were evaluated for: the end of the window that they look back over. It is the time that was
	// due, not the time of the answer.
	At      time.Time
	Outcome Outcome
	// Value is the reduced value, nil when there is none or the reducer is any or all.
	Value *float64
	// Values are all values that the rule saw.
	Values []float64
	// Counts are set for comparisons only. [NextState] decides their outcome, because it depends on what was counted before.
	Counts *Counts
	// Canary and Stable are the latencies of a comparison by latency, which [NextState] makes counts of.
	Canary, Stable Histogram
	// Message is a full sentence that says why, and unless the metric passed what to do about it.
	Message string
}

// ErrorMeasurement is a measurement that could not be made at all, for example because the provider was unreachable.
func ErrorMeasurement(at time.Time, err error) Measurement {
	return Measurement{At: at, Outcome: OutcomeError, Message: fullSentence(err.Error())}
}
