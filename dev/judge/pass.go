package main

import (
	"math"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

// pass holds how often, and when, passAfter let a canary with a ratio pass.
type pass struct {
	samples, maxRatio, worse float64
	passed, failed           float64
	median                   time.Duration
}

func playPasses(runs int, seed uint64) []pass {
	var list []pass
	for _, samples := range []float64{2000, 20000} {
		for _, worse := range []float64{1, 3, 5, 10} {
			list = append(list, playPass(samples, 1.5, worse, runs, seed))
		}
	}
	return list
}

func playPass(samples, maxRatio, worse float64, runs int, seed uint64) pass {
	p := pass{samples: samples, maxRatio: maxRatio, worse: worse}
	times := make([]time.Duration, runs)
	failed := make([]bool, runs)
	r := row{base: 0.001, worse: worse, canary: 50, stable: 50}
	each(runs, func(run int) {
		simulated := r.newRelease(newChance(seed, uint64(run)))
		e := analysis.Evidence{Past: analysis.NewPast(simulated.past(), look, longestBurst), Tolerate: 1}
		for tick := 1; tick <= looks(); tick++ {
			e = e.AddTick(simulated.next(look, worse))
			if failed[run] = e.Odds().LogWorse() >= math.Log(1/alpha); failed[run] {
				return
			}
			if e.Sum.CanaryTotal >= samples && e.RulesOut(maxRatio, samples) {
				times[run] = time.Duration(tick) * look
				return
			}
		}
	})
	var passed []time.Duration
	for run, at := range times {
		if at > 0 {
			passed = append(passed, at)
		}
		if failed[run] {
			p.failed += 1 / float64(runs)
		}
	}
	slices.Sort(passed)
	p.passed = float64(len(passed)) / float64(runs)
	if len(passed) > runs/2 {
		p.median = passed[runs/2]
	}
	return p
}
