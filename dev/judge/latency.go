package main

import (
	"math"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

// latencies draws histograms. Good requests are lognormal with a median of 60 ms, and bad ones, which are slow, with a median of 400 ms.
type latencies struct {
	c chance
	// good and bad are the chances of a latency below each bound.
	good, bad []float64
}

func newLatencies(c chance) *latencies {
	return &latencies{c: c, good: lognormal(0.06, 0.4), bad: lognormal(0.4, 0.5)}
}

// lognormal returns the chances that a lognormal variable with this median, whose logarithm has this standard deviation, is below each bound.
func lognormal(median, deviation float64) (list []float64) {
	for _, bound := range bounds() {
		list = append(list, math.Erfc(-math.Log(bound/median)/deviation/math.Sqrt2)/2)
	}
	return list
}

// draw returns the latencies of some requests, bad ones among them.
func (l *latencies) draw(total, bad float64) analysis.Histogram {
	h := make(analysis.Histogram, len(l.good))
	below, sum := 0.0, 0.0
	for i, bound := range bounds() {
		sum += l.c.poisson((total - bad) * (l.good[i] - below))
		h[i], below = analysis.Bucket{Bound: bound, Count: sum}, l.good[i]
	}
	for range int(bad) {
		for i, at := len(h)-1, l.c.Float64(); i >= 0 && at < l.bad[i]; i-- {
			h[i].Count++ // buckets are cumulative
		}
	}
	return h
}

// slow is the bound that most good requests are below, and most bad ones above.
const slow = 0.25

// newLatency compares latencies: the bad requests of the simulated release are slow ones.
func newLatency(r *release) *ours {
	o := r.newOurs(&api.Compare{Latency: &api.CompareLatency{Canary: "seconds_bucket[6m]", Stable: "seconds_bucket[6m]", Quantile: 1 - r.base}})
	o.latency = newLatencies(r.c)
	if r.noPast {
		return o
	}
	var ticks []analysis.Tick
	all := make(analysis.Histogram, len(bounds()))
	for _, tick := range r.past() {
		h := o.latency.draw(tick.Total, tick.Bad)
		ticks = append(ticks, analysis.Tick{Bad: h.SlowerThan(slow), Total: h.Total()})
		for i, b := range h {
			all[i] = analysis.Bucket{Bound: b.Bound, Count: all[i].Count + b.Count}
		}
	}
	past := analysis.NewPast(ticks, look, longestBurst)
	past.Latency, o.past = all, &past
	return o
}
