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
}

// Measure judges what a provider answered to queries evaluated for a time. The outcome of a comparison is left to [Next].
func (m Metric) Measure(at time.Time, a Answers) Measurement {
	if outcome, message := m.enough(a.Samples); outcome != "" {
		return Measurement{At: at, Outcome: outcome, Message: message}
	}
	if m.Compare != nil {
		return m.count(at, a)
	}
	list, outcome, message := values(a.Value)
	if outcome != "" {
		return Measurement{At: at, Outcome: outcome, Message: message}
	}
	if len(list) > 1 && m.Reduce == ReduceNone {
		return Measurement{At: at, Outcome: OutcomeError, Values: list, Message: fmt.Sprintf(
			"The query returned %s, and the metric does not say what to make of them; set reduce (max, min, sum, avg, any or all), or aggregate in the query.", many(len(list), "value"))}
	}
	if m.Reduce.apart() {
		return m.apart(at, list)
	}
	value := m.Reduce.one(list)
	outcome, message = m.Rule.judge(value, list)
	return Measurement{At: at, Outcome: outcome, Value: &value, Values: list, Message: message}
}

// apart asks the rule about each value: what all may not do, one is enough for, and the other way round.
func (m Metric) apart(at time.Time, list []float64) Measurement {
	order := []Outcome{OutcomeError, OutcomeFail, OutcomeInconclusive, OutcomePass}
	if m.Reduce == ReduceAny {
		order = []Outcome{OutcomePass, OutcomeError, OutcomeInconclusive, OutcomeFail}
	}
	messages, times := map[Outcome]string{}, map[Outcome]int{}
	for _, v := range list {
		outcome, message := m.Rule.judge(v, list)
		if times[outcome]++; times[outcome] == 1 {
			messages[outcome] = message
		}
	}
	for _, outcome := range order {
		if n := times[outcome]; n > 0 {
			return Measurement{At: at, Outcome: outcome, Values: list, Message: fmt.Sprintf(
				"%s This holds for %d of %s, and reduce is %s.", messages[outcome], n, many(len(list), "value"), m.Reduce)}
		}
	}
	return Measurement{At: at, Outcome: OutcomeNoData}
}

// enough reports a measurement that is made of too few requests.
func (m Metric) enough(r Result) (Outcome, string) {
	if m.MinSamples == nil {
		return "", ""
	}
	list, outcome, message := values(r)
	if outcome == OutcomeError {
		return OutcomeError, "About minSamples: " + message
	}
	if n := ReduceSum.one(list); n < m.MinSamples.AtLeast {
		return OutcomeNoData, fmt.Sprintf("There were %s requests, fewer than the %s of minSamples; send more traffic, or lower minSamples.", number(n), number(m.MinSamples.AtLeast))
	}
	return "", ""
}

// count reads the requests of one tick.
func (m Metric) count(at time.Time, a Answers) Measurement {
	from := at.Add(-m.Interval)
	if m.Compare.Latency != nil {
		return latencies(at, over(a.CanaryBuckets, from, at), over(a.StableBuckets, from, at))
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
		sum, outcome, message := counted(over(part.result, from, at))
		bad := strings.HasSuffix(part.name, "Bad")
		if outcome == OutcomeNoData && bad {
			outcome, sum = "", 0 // NaN where there are no errors
		}
		if outcome != "" {
			return Measurement{At: at, Outcome: outcome, Message: fmt.Sprintf("About %s: %s", part.name, message)}
		}
		*part.sum = sum
	}
	c, outcome, message := c.checked()
	return Measurement{At: at, Outcome: outcome, Counts: &c, Message: message}
}

// over makes counts of counters, which come as a matrix.
func over(r Result, from, to time.Time) Result {
	if r.Kind == KindMatrix {
		return Rise(r, from, to)
	}
	return r
}

func latencies(at time.Time, canary, stable Result) Measurement {
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
