package main

import (
	"math"
	"slices"
	"sync"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

// row is one kind of release, and the promise about it.
type row struct {
	name string
	// base is the stable group's share of bad requests, and worse is the canary's ratio to it.
	base, worse float64
	// bursts is the shape of the gamma variables that multiply the errors, separately for each group; 0 means no bursts. Each burst lasts for lasts ticks.
	bursts float64
	lasts  int
	// brownouts is the percentage of ticks that multiply the errors of both groups by 50.
	brownouts float64
	// canary and stable are requests per second.
	canary, stable float64
	// within is the promised median time to fail a bad canary; 0 promises that at most alpha of good ones fail.
	within time.Duration
	// shown rows have no promise.
	shown bool
}

// rows returns the acceptance table, followed by the cases outside of it.
func rows() []row {
	return []row{
		{name: "none", base: 0.001, worse: 1, canary: 50, stable: 50},
		{name: "x3", base: 0.001, worse: 3, canary: 50, stable: 50, within: 240 * time.Second},
		{name: "x5", base: 0.001, worse: 5, canary: 50, stable: 50, within: 90 * time.Second},
		{name: "x10", base: 0.001, worse: 10, canary: 50, stable: 50, within: 45 * time.Second},
		{name: "none, bursty (gamma 0.5, 1 %)", base: 0.01, worse: 1, bursts: 0.5, lasts: 1, canary: 50, stable: 50},
		{name: "none, shared bursts", base: 0.001, worse: 1, brownouts: 5, canary: 50, stable: 50},
		{name: "none, canary 5 % of traffic", base: 0.005, worse: 1, canary: 5, stable: 95},
		{name: "none, bursty, canary 5 %", base: 0.01, worse: 1, bursts: 0.5, lasts: 1, canary: 5, stable: 95},
		{name: "x3, canary 5 % (0.5 % base)", base: 0.005, worse: 3, canary: 5, stable: 95, within: 300 * time.Second},
		{name: "x3, bursty", base: 0.01, worse: 3, bursts: 0.5, lasts: 1, canary: 50, stable: 50, shown: true},
		{name: "none, bursty (gamma 0.25)", base: 0.01, worse: 1, bursts: 0.25, lasts: 1, canary: 50, stable: 50, shown: true},
		{name: "none, bursts of 30 s", base: 0.01, worse: 1, bursts: 0.5, lasts: 3, canary: 50, stable: 50, shown: true},
	}
}

// ticks returns a generator for the counts of one release, look by look.
func (r row) ticks(c chance) func() analysis.Counts {
	tick, mine, theirs := 0, 1.0, 1.0
	return func() analysis.Counts {
		if r.bursts > 0 && tick%r.lasts == 0 {
			mine, theirs = c.gamma(r.bursts), c.gamma(r.bursts)
		}
		tick++
		shared := 1.0
		if c.Float64()*100 < r.brownouts {
			shared = 50
		}
		counts := analysis.Counts{CanaryTotal: c.poisson(r.canary * look.Seconds()), StableTotal: c.poisson(r.stable * look.Seconds())}
		counts.CanaryBad = min(counts.CanaryTotal, c.poisson(min(1, r.base*r.worse*mine*shared)*counts.CanaryTotal))
		counts.StableBad = min(counts.StableTotal, c.poisson(min(1, r.base*theirs*shared)*counts.StableTotal))
		return counts
	}
}

// outcome holds the times at which each judge failed the canary, over all runs.
type outcome struct {
	row   row
	runs  int
	times [][]time.Duration
}

// failed returns the share of runs in which a judge failed the canary.
func (o outcome) failed(judge int) float64 { return float64(len(o.times[judge])) / float64(o.runs) }

// median returns the time after which half of all canaries had failed; 0 if fewer failed.
func (o outcome) median(judge int) time.Duration {
	if len(o.times[judge]) <= o.runs/2 {
		return 0
	}
	return o.times[judge][o.runs/2]
}

// kept reports whether the judge of Sluice keeps the row's promise.
func (o outcome) kept() bool {
	if o.row.within == 0 {
		return o.failed(0) <= alpha
	}
	return o.median(0) > 0 && o.median(0) <= o.row.within
}

func playRows(rows []row, runs int, seed uint64, judges func() []judge) []outcome {
	var list []outcome
	for _, r := range rows {
		list = append(list, playRow(r, runs, seed, judges))
	}
	return list
}

func playRow(r row, runs int, seed uint64, judges func() []judge) outcome {
	o := outcome{row: r, runs: runs, times: make([][]time.Duration, len(judges()))}
	var lock sync.Mutex
	each(runs, func(run int) {
		decided := r.play(newChance(seed, uint64(run)), judges())
		lock.Lock()
		defer lock.Unlock()
		for i, at := range decided {
			if at > 0 {
				o.times[i] = append(o.times[i], at)
			}
		}
	})
	for _, times := range o.times {
		slices.Sort(times)
	}
	return o
}

// play simulates one release and returns the times at which the judges failed it, 0 for never.
func (r row) play(c chance, list []judge) []time.Duration {
	next := r.ticks(c)
	decided, open := make([]time.Duration, len(list)), len(list)
	for tick := 1; tick <= looks() && open > 0; tick++ {
		counts := next()
		for i, j := range list {
			if decided[i] == 0 && j.fails(counts) {
				decided[i] = time.Duration(tick) * look
				open--
			}
		}
	}
	return decided
}

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
		next := r.ticks(newChance(seed, uint64(run)))
		var e analysis.Evidence
		for tick := 1; tick <= looks(); tick++ {
			e = e.AddTick(next(), 1)
			if failed[run] = e.LogWorse() >= math.Log(1/alpha); failed[run] {
				return
			}
			if e.Sum.CanaryTotal >= samples && e.LogWorse() <= 0 && e.RulesOut(maxRatio) {
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
