package analysis

import "time"

// Outcome is the result of one measurement. Each outcome has its own policy and limit; none replaces another.
type Outcome string

// Outcomes of a measurement.
const (
	// OutcomePass and OutcomeFail: the rule of the metric decided about a value.
	OutcomePass Outcome = "pass"
	OutcomeFail Outcome = "fail"
	// OutcomeInconclusive: the measurement has a value, and the rule decides neither way.
	OutcomeInconclusive Outcome = "inconclusive"
	// OutcomeNoData: the provider answered that it has no data, or too little.
	OutcomeNoData Outcome = "noData"
	// OutcomeError: the provider did not answer, or its answer cannot be judged.
	OutcomeError Outcome = "error"
)

// isConclusive reports whether an outcome comes from a value. Such an outcome ends a period without data or answers.
func (o Outcome) isConclusive() bool {
	return o == OutcomePass || o == OutcomeFail || o == OutcomeInconclusive
}

// Measurement is one judged measurement.
type Measurement struct {
	// At is the time that the queries were evaluated for: the end of the window that they look back over. It is the due time of the measurement, not
	// the time of the answer.
	At      time.Time
	Outcome Outcome
	// Value is the reduced value; nil without a value, or if the reducer is any or all.
	Value *float64
	// Values are all values that the rule judged.
	Values []float64
	// Counts are set for comparisons only. [NextState] decides their outcome, because it depends on earlier counts.
	Counts *Counts
	// Past is the past of the stable group, for comparisons only and if it was read. PastProblem says why it could not be read.
	Past        *Past
	PastProblem string
	// Canary and Stable are the latencies of a comparison by latency. [NextState] turns them into counts.
	Canary, Stable Histogram
	// Message is a full sentence with the reason. Unless the metric passed, it also says what to do.
	Message string
}

// ErrorMeasurement returns a measurement that failed altogether, for example because the provider was unreachable.
func ErrorMeasurement(at time.Time, err error) Measurement {
	return Measurement{At: at, Outcome: OutcomeError, Message: fullSentence(err.Error())}
}
