package main

import (
	"slices"
	"time"
)

// Latency is the distribution of a duration, in milliseconds: half of all values were at most P50, and so on.
type Latency struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// latency sums up durations. The quantile q of n values is the measured value at rank ceil(q*n).
func latency(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	all = slices.Sorted(slices.Values(all))
	at := func(percent int) float64 { return milliseconds(all[(percent*len(all)+99)/100-1]) }
	return Latency{N: len(all), P50: at(50), P90: at(90), P99: at(99), Max: milliseconds(all[len(all)-1])}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// times holds the phases of many releases.
type times struct{ toPause, toNext, toHealthy []time.Duration }

func (t *times) add(w *burst) {
	for _, f := range w.flights {
		if len(f.paused) == 0 {
			continue
		}
		t.toPause = append(t.toPause, f.paused[0].Sub(f.changed))
		for i := 1; i < len(f.paused); i++ {
			t.toNext = append(t.toNext, f.paused[i].Sub(f.approved[i-1]))
		}
		t.toHealthy = append(t.toHealthy, f.healthy.Sub(f.approved[len(f.approved)-1]))
	}
}

// steps returns all phases that depend only on the controller.
func (t *times) steps() []time.Duration { return slices.Concat(t.toPause, t.toNext) }
