package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Reducer combines several series.
type Reducer string

// Reducers. Max, min, sum and avg make one value. All and any keep the values apart. With all, every value has to pass, and one failing value fails
// the measurement. With any, one passing value is enough, and the measurement fails only if every value fails.
const (
	ReduceNone Reducer = ""
	ReduceMax  Reducer = "max"
	ReduceMin  Reducer = "min"
	ReduceSum  Reducer = "sum"
	ReduceAvg  Reducer = "avg"
	ReduceAny  Reducer = "any"
	ReduceAll  Reducer = "all"
)

func allReducers() []Reducer {
	return []Reducer{ReduceNone, ReduceMax, ReduceMin, ReduceSum, ReduceAvg, ReduceAny, ReduceAll}
}

// isPerValue reports whether the rule judges each value.
func (r Reducer) isPerValue() bool { return r == ReduceAny || r == ReduceAll }

func (r Reducer) reduceValues(values []float64) float64 {
	switch r {
	case ReduceMax:
		return slices.Max(values)
	case ReduceMin:
		return slices.Min(values)
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	if r == ReduceAvg {
		return sum / float64(len(values))
	}
	return sum
}

// numbersOf reads the numbers of an answer. Without numbers, it returns an outcome and a message; with numbers, the outcome is empty. NaN counts as
// absent, and so does Prometheus' marker of a stale series. A ratio without requests, 0/0, gives NaN.
func numbersOf(r Result) (list []float64, outcome Outcome, message string) {
	if len(r.Warnings) > 0 {
		return nil, OutcomeError, fmt.Sprintf("The provider warned about its answer, so it is not judged: %s.", strings.TrimSuffix(strings.Join(r.Warnings, "; "), "."))
	}
	switch r.Kind {
	case KindVector, KindMatrix, KindScalar:
	case KindString:
		return nil, OutcomeError, "The query returned a string; let it return numbers."
	default:
		return nil, OutcomeError, fmt.Sprintf("The answer is a %q, and not a vector, matrix, scalar or string; check the address of the provider.", r.Kind)
	}
	for _, s := range r.Series {
		if s.Histogram {
			return nil, OutcomeError, "The query returned native histograms; make numbers of them with histogram_quantile, histogram_fraction or histogram_count."
		}
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) {
				list = append(list, p.Value)
			}
		}
	}
	if len(list) == 0 {
		return nil, OutcomeNoData, noDataMessage(r)
	}
	if i := slices.IndexFunc(list, func(v float64) bool { return math.IsInf(v, 0) }); i >= 0 {
		return nil, OutcomeError, fmt.Sprintf("The query returned %+g, which no limit can be compared with: it divides by zero, or asks for a quantile outside 0 to 1; mend the query.", list[i])
	}
	return list, "", ""
}

func noDataMessage(r Result) string {
	if len(r.Series) == 0 {
		return "The query returned no series; check its names and labels, and that the canary is scraped."
	}
	return "The query returned NaN, as a ratio does without requests; check that the canary receives requests."
}
