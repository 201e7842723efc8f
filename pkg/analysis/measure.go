package analysis

import (
	"fmt"
	"strings"
	"time"
)

// Answers are the provider's answers to the [Queries] of a metric, under the same names.
type Answers struct {
	Value, Samples                                 Result
	CanaryBad, CanaryTotal, StableBad, StableTotal Result
	CanaryBuckets, StableBuckets                   Result
	// Past is what [Metric.AskPast] returned; nil if it was not called.
	Past *PastAnswers
}

// Measure judges the answers of a provider to queries that were evaluated for a time. [NextState] decides the outcome of a comparison.
func (m Metric) Measure(at time.Time, a Answers) Measurement {
	measured := m.measureAnswers(at, a)
	if a.Past != nil {
		measured.Past, measured.PastProblem = m.readPast(*a.Past)
	}
	return measured
}

func (m Metric) measureAnswers(at time.Time, a Answers) Measurement {
	if outcome, message := m.checkSamples(a.Samples); outcome != "" {
		return Measurement{At: at, Outcome: outcome, Message: message}
	}
	if m.Compare != nil {
		return m.measureCounts(at, a)
	}
	list, outcome, message := numbersOf(a.Value)
	if outcome != "" {
		return Measurement{At: at, Outcome: outcome, Message: message}
	}
	if len(list) > 1 && m.Reduce == ReduceNone {
		return Measurement{At: at, Outcome: OutcomeError, Values: list, Message: fmt.Sprintf(
			"The query returned %s, and the metric does not say what to make of them; set reduce (max, min, sum, avg, any or all), or aggregate in the query.", countNoun(len(list), "value"))}
	}
	if m.Reduce.isPerValue() {
		return m.measureEach(at, list)
	}
	value := m.Reduce.reduceValues(list)
	outcome, message = m.Rule.outcomeOf(value, list)
	return Measurement{At: at, Outcome: outcome, Value: &value, Values: list, Message: message}
}

// measureEach applies the rule to each value. The reducers all and any decide how the outcomes of the values combine.
func (m Metric) measureEach(at time.Time, list []float64) Measurement {
	order := []Outcome{OutcomeError, OutcomeFail, OutcomeInconclusive, OutcomePass}
	if m.Reduce == ReduceAny {
		order = []Outcome{OutcomePass, OutcomeError, OutcomeInconclusive, OutcomeFail}
	}
	messages, times := map[Outcome]string{}, map[Outcome]int{}
	for _, v := range list {
		outcome, message := m.Rule.outcomeOf(v, list)
		if times[outcome]++; times[outcome] == 1 {
			messages[outcome] = message
		}
	}
	for _, outcome := range order {
		if n := times[outcome]; n > 0 {
			return Measurement{At: at, Outcome: outcome, Values: list, Message: fmt.Sprintf(
				"%s This holds for %d of %s, and reduce is %s.", messages[outcome], n, countNoun(len(list), "value"), m.Reduce)}
		}
	}
	return Measurement{At: at, Outcome: OutcomeNoData}
}

// checkSamples reports a measurement with too few requests.
func (m Metric) checkSamples(r Result) (Outcome, string) {
	if m.MinSamples == nil {
		return "", ""
	}
	list, outcome, message := numbersOf(r)
	if outcome == OutcomeError {
		return OutcomeError, "About minSamples: " + message
	}
	if n := ReduceSum.reduceValues(list); n < m.MinSamples.AtLeast {
		return OutcomeNoData, fmt.Sprintf("There were %s requests, fewer than the %s of minSamples; send more traffic, or lower minSamples.", formatNumber(n), formatNumber(m.MinSamples.AtLeast))
	}
	return "", ""
}

// measureCounts reads the requests of one tick.
func (m Metric) measureCounts(at time.Time, a Answers) Measurement {
	from := at.Add(-m.Interval)
	if m.Compare.Latency != nil {
		return measureLatency(at, countsOf(a.CanaryBuckets, from, at), countsOf(a.StableBuckets, from, at))
	}
	var c Counts
	for _, part := range []struct {
		name   string
		result Result
		sum    *float64
	}{
		{"canaryBad", a.CanaryBad, &c.CanaryBad}, {"canaryTotal", a.CanaryTotal, &c.CanaryTotal},
		{"stableBad", a.StableBad, &c.StableBad}, {"stableTotal", a.StableTotal, &c.StableTotal},
	} {
		sum, outcome, message := sumCounts(countsOf(part.result, from, at))
		bad := strings.HasSuffix(part.name, "Bad")
		if outcome == OutcomeNoData && bad {
			outcome, sum = "", 0 // NaN where there are no errors
		}
		if outcome != "" {
			return Measurement{At: at, Outcome: outcome, Message: fmt.Sprintf("About %s: %s", part.name, message)}
		}
		*part.sum = sum
	}
	c, outcome, message := c.checkComparable()
	return Measurement{At: at, Outcome: outcome, Counts: &c, Message: message}
}

// countsOf turns counters, which come as a matrix, into counts.
func countsOf(r Result, from, to time.Time) Result {
	if r.Kind == KindMatrix {
		return CounterRise(r, from, to)
	}
	return r
}

func measureLatency(at time.Time, canary, stable Result) Measurement {
	var histograms [2]Histogram
	for i, group := range []struct {
		name   string
		result Result
	}{{"canary", canary}, {"stable", stable}} {
		h, outcome, message := HistogramOf(group.result)
		if outcome != "" {
			return Measurement{At: at, Outcome: outcome, Message: fmt.Sprintf("About the latency of the %s group: %s", group.name, message)}
		}
		histograms[i] = h
	}
	return Measurement{At: at, Canary: histograms[0], Stable: histograms[1]}
}
