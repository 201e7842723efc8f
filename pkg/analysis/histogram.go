package analysis

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Histogram counts the requests of one tick by latency. It has cumulative buckets in order of their bounds. The last bound is +Inf, and its bucket
// counts all requests.
type Histogram []Bucket

// Bucket counts the requests that took at most Bound, in the unit of the metric.
type Bucket struct {
	Bound, Count float64
}

// MarshalJSON writes the bound as text, because JSON has no infinity.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{strconv.FormatFloat(b.Bound, 'g', -1, 64), strconv.FormatFloat(b.Count, 'g', 10, 64)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (b *Bucket) UnmarshalJSON(data []byte) error {
	var text [2]string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read bucket: %w", err)
	}
	var err error
	if b.Bound, err = strconv.ParseFloat(text[0], 64); err != nil {
		return fmt.Errorf("read bound of bucket: %w", err)
	}
	if b.Count, err = strconv.ParseFloat(text[1], 64); err != nil {
		return fmt.Errorf("read count of bucket: %w", err)
	}
	return nil
}

// HistogramOf reads the buckets of classic histograms, added up by their label le. If it cannot, it returns an outcome and a sentence with the
// reason.
func HistogramOf(r Result) (h Histogram, outcome Outcome, message string) {
	if _, outcome, message = numbersOf(r); outcome != "" {
		return nil, outcome, message
	}
	sums := map[float64]float64{}
	for _, s := range r.Series {
		bound, err := strconv.ParseFloat(s.Labels["le"], 64)
		if err != nil || math.IsNaN(bound) {
			return nil, OutcomeError, "The query returned a series without a number in its label le; let it return buckets: sum by (le) (increase(..._bucket[...]))."
		}
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) {
				sums[bound] += p.Value
			}
		}
	}
	for _, bound := range slices.Sorted(maps.Keys(sums)) {
		count := sums[bound]
		if count < 0 {
			return nil, OutcomeError, fmt.Sprintf("The bucket le=%q counted %g requests; let the query count with increase(), which never falls below 0.", formatNumber(bound), count)
		}
		h = append(h, Bucket{Bound: bound, Count: count})
	}
	if !math.IsInf(h[len(h)-1].Bound, 1) || len(h) < 2 {
		return nil, OutcomeError, "The query did not return the bucket le=\"+Inf\" and at least one other; keep all buckets of the histogram."
	}
	for i := 1; i < len(h); i++ {
		h[i].Count = max(h[i].Count, h[i-1].Count) // extrapolation may let a wider bucket seem smaller
	}
	return h, "", ""
}

// Total is the number of all requests.
func (h Histogram) Total() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Count
}

// SlowerThan is the number of requests that took longer than a bound of the histogram.
func (h Histogram) SlowerThan(bound float64) float64 {
	for _, b := range h {
		if b.Bound == bound {
			return h.Total() - b.Count
		}
	}
	return 0
}

func (h Histogram) hasBound(bound float64) bool {
	return slices.ContainsFunc(h, func(b Bucket) bool { return b.Bound == bound })
}

// plusShared adds two histograms, over the bounds that both have.
func (h Histogram) plusShared(other Histogram) Histogram {
	if len(h) == 0 {
		return other
	}
	var sum Histogram
	for _, a := range h {
		for _, b := range other {
			if a.Bound == b.Bound {
				sum = append(sum, Bucket{Bound: a.Bound, Count: a.Count + b.Count})
			}
		}
	}
	return sum
}

// boundFor chooses a bound of both histograms: the one whose share of slower requests is nearest to 1-quantile; 0 if they share no bound. Shares are
// smoothed, because a bound without slower requests so far may still be exceeded.
func (h Histogram) boundFor(quantile float64, other Histogram) float64 {
	best, distance := 0.0, math.Inf(1)
	for _, b := range h {
		if math.IsInf(b.Bound, 1) || !other.hasBound(b.Bound) {
			continue
		}
		share := (h.Total() - b.Count + 0.5) / (h.Total() + 1)
		if d := math.Abs(math.Log(share / (1 - quantile))); d < distance {
			best, distance = b.Bound, d
		}
	}
	return best
}
