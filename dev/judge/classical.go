package main

import (
	"math"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

const (
	look    = 10 * time.Second
	horizon = 30 * time.Minute
	alpha   = 0.01
	// longestBurst is the default of templates.
	longestBurst = 5 * time.Minute
	// zAlpha is the one-sided limit of a standard normal variable for alpha.
	zAlpha = 2.3263
)

// judge decides after each tick, at a time since the change of traffic, whether to fail the canary.
type judge interface {
	fails(at time.Duration, c analysis.Counts) bool
}

// classicalJudges returns the classical tests, in the order of the columns of the table.
func classicalJudges() []judge {
	return []judge{&zTest{}, &mannWhitney{every: 3}, &mannWhitney{every: looks()}, &threshold{}}
}

// judgeNames has the judges of Sluice first.
func judgeNames() []string {
	return []string{"errors", "latency", "z at each look", "Mann-Whitney/30s", "Mann-Whitney once", "threshold 1 %"}
}

func looks() int { return int(horizon / look) }

// zTest compares two proportions of all data, at each look.
type zTest struct{ sum analysis.Counts }

func (z *zTest) fails(_ time.Duration, c analysis.Counts) bool {
	s := &z.sum
	s.CanaryBad, s.CanaryTotal = s.CanaryBad+c.CanaryBad, s.CanaryTotal+c.CanaryTotal
	s.StableBad, s.StableTotal = s.StableBad+c.StableBad, s.StableTotal+c.StableTotal
	pooled := (s.CanaryBad + s.StableBad) / (s.CanaryTotal + s.StableTotal)
	spread := math.Sqrt(pooled * (1 - pooled) * (1/s.CanaryTotal + 1/s.StableTotal))
	return spread > 0 && (s.CanaryBad/s.CanaryTotal-s.StableBad/s.StableTotal)/spread > zAlpha
}

// mannWhitney compares the ranks of the ticks' error rates, once in a fixed number of looks.
type mannWhitney struct {
	every          int
	canary, stable []float64
}

func (m *mannWhitney) fails(_ time.Duration, c analysis.Counts) bool {
	m.canary = append(m.canary, c.CanaryBad/c.CanaryTotal)
	m.stable = append(m.stable, c.StableBad/c.StableTotal)
	return len(m.canary)%m.every == 0 && len(m.canary) >= 3 && m.z() > zAlpha
}

// z is the normal approximation of U, corrected for ties.
func (m *mannWhitney) z() float64 {
	type sample struct {
		value  float64
		canary bool
	}
	var all []sample
	for i := range m.canary {
		all = append(all, sample{m.canary[i], true}, sample{m.stable[i], false})
	}
	slices.SortFunc(all, func(a, b sample) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	n, total := float64(len(m.canary)), float64(len(all))
	ranks, ties := 0.0, 0.0
	for from := 0; from < len(all); {
		to, canaries := from, 0.0
		for to < len(all) && all[to].value == all[from].value {
			if all[to].canary {
				canaries++
			}
			to++
		}
		same := float64(to - from)
		ranks += canaries * (float64(from+to) + 1) / 2
		ties += same*same*same - same
		from = to
	}
	variance := n * n / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 0
	}
	return (ranks - n*(n+1)/2 - n*n/2) / math.Sqrt(variance)
}

// threshold fails a canary with more than 1 % errors in the last five minutes, from the first minute on.
type threshold struct{ ticks []analysis.Counts }

func (t *threshold) fails(_ time.Duration, c analysis.Counts) bool {
	t.ticks = append(t.ticks, c)
	if len(t.ticks) < int(time.Minute/look) {
		return false
	}
	bad, total := 0.0, 0.0
	for _, tick := range t.ticks[max(0, len(t.ticks)-int(5*time.Minute/look)):] {
		bad, total = bad+tick.CanaryBad, total+tick.CanaryTotal
	}
	return bad > 0.01*total
}
