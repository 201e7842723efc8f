package analysis

import (
	"math"
	"time"
)

// CounterRise returns, for each series of raw counter samples, the rise of the counter after from and until to. Adjacent windows count each rise
// once, at any times of scrapes. A counter that falls was reset, and counts from 0 again. A counter that first appears inside the window counts from
// its first sample, because its earlier rise may be long ago. For a counter that ends or misses scrapes, the samples that exist count. So no rise is
// negative, and none includes time outside the window.
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

// seriesRise returns the rise of one series; known is false if the window has no sample.
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
