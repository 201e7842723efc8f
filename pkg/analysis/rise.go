package analysis

import (
	"math"
	"time"
)

// CounterRise counts, for each series of raw counter samples, by how much the counter rose after from and until to. Windows that touch
// tile exactly: nothing is counted twice or lost between them, whenever scrapes happen. A counter that falls was reset and counts
// from 0 again; one that first appears inside the window counts from its first sample, for what it counted before may be long
// ago; one that ends or misses scrapes counts what it showed. So no rise is ever negative, and none counts time outside the window.
func CounterRise(r Result, from, to time.Time) Result {
	risen := Result{Kind: KindVector, Warnings: r.Warnings}
	for _, s := range r.Series {
		rise, known := seriesRise(s.Points, from, to)
		if !known && !s.Histogram {
			continue
		}
		risen.Series = append(risen.Series, Series{Labels: s.Labels, Histogram: s.Histogram, Points: []Point{{At: to, Value: rise}}})
	}
	return risen
}

// seriesRise reports as unknown what has no sample inside the window.
func seriesRise(points []Point, from, to time.Time) (float64, bool) {
	total, last, inside := 0.0, math.NaN(), false
	for _, p := range points {
		if p.At.After(to) || math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			continue // a marker of a stale series is a NaN
		}
		if p.At.After(from) {
			inside = true
			switch {
			case p.Value >= last:
				total += p.Value - last
			case p.Value < last:
				total += max(0, p.Value)
			}
		}
		last = p.Value
	}
	return total, inside
}
