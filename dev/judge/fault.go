package main

import (
	"fmt"
	"time"
)

// fault is one simulated release with a disturbance. guilty reports whether the canary causes it.
type fault struct {
	kind   string
	run    uint64
	guilty bool
	// strong faults are errors x3 or a p99 x2 and more, from the beginning on.
	strong bool
	// hidden faults are behind bursts that the past knows as well; the judge waits until it can tell them apart.
	hidden bool
	// latency compares latency; otherwise errors are compared.
	latency bool
	// minSamples is the minimum number of requests to the canary in a measurement; 0 means no minimum.
	minSamples float64

	canary, stable group
	// share is the share of bad requests of a healthy version.
	share float64
}

// group holds the pods of one version, and their disturbances.
type group struct {
	rate float64
	pods int
	// worse multiplies errors, and slower latency, at a time since the beginning.
	worse, slower func(at time.Duration) float64
	// missed is the probability of a missed scrape; blind is a time without scrapes.
	missed float64
	blind  [2]time.Duration
	// resets are the times at which the counters of a pod restart from 0 in place. restarts are the times at which another pod replaces a pod.
	resets, restarts []time.Duration
}

func steadily(factor float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return factor }
}

// kinds returns the kinds of faults. Each creates a release with a guilty canary, or one in which the same disturbance hits innocent versions.
func kinds() map[string]func(c chance, f *fault) {
	return map[string]func(c chance, f *fault){
		"errors, step":         stepErrors,
		"errors, ramp":         rampErrors,
		"latency shift":        latencyShift,
		"bursts of errors":     burstErrors,
		"shared brown-outs":    brownouts,
		"low traffic":          lowTraffic,
		"resets of counters":   counterResets,
		"restarts of pods":     podRestarts,
		"missing scrapes":      missingScrapes,
		"latency and restarts": latencyRestarts,
	}
}

// newFault creates the release with a number. Half of the releases of a kind are guilty.
func newFault(kind string, guilty bool, seed, run uint64) (fault, chance) {
	c := newChance(seed, run)
	f := fault{kind: kind, run: run, guilty: guilty, share: c.between(0.002, 0.01)}
	total := c.between(50, 400)
	part := c.between(0.1, 0.5)
	f.canary = group{rate: total * part, pods: 1 + c.IntN(3), worse: steadily(1), slower: steadily(1)}
	f.stable = group{rate: total * (1 - part), pods: 2 + c.IntN(5), worse: steadily(1), slower: steadily(1)}
	kinds()[kind](c, &f)
	return f, c
}

// blame makes the canary of a guilty release return three to ten times as many errors.
func (f *fault) blame(c chance) {
	if f.guilty {
		f.canary.worse, f.strong = steadily(c.between(3, 10)), true
	}
}

func stepErrors(c chance, f *fault) { f.blame(c) }

func rampErrors(c chance, f *fault) {
	if !f.guilty {
		return
	}
	top, over := c.between(3, 10), time.Duration(c.between(2, 10)*float64(time.Minute))
	f.canary.worse = func(at time.Duration) float64 { return 1 + (top-1)*min(1, at.Seconds()/over.Seconds()) }
}

func latencyShift(c chance, f *fault) {
	f.latency = true
	if f.guilty {
		f.canary.slower, f.strong = steadily(c.between(2, 4)), true
	}
}

func latencyRestarts(c chance, f *fault) {
	latencyShift(c, f)
	podRestarts(c, f)
	f.canary.worse = steadily(1)
}

// burstErrors gives each group its own bursts, of 10 to 20 s and with up to ten times the errors.
func burstErrors(c chance, f *fault) {
	f.blame(c)
	f.hidden = true
	for _, g := range []*group{&f.canary, &f.stable} {
		var bursts [][3]float64
		for at := 60 * c.Float64(); at < horizon.Seconds(); at += c.between(60, 300) {
			bursts = append(bursts, [3]float64{at, at + 10 + 10*c.Float64(), c.between(3, 10)})
		}
		before := g.worse
		g.worse = func(at time.Duration) float64 {
			for _, b := range bursts {
				if at.Seconds() >= b[0] && at.Seconds() < b[1] {
					return before(at) * b[2]
				}
			}
			return before(at)
		}
	}
}

// brownouts makes a shared dependency fail at times, and slow both groups down.
func brownouts(c chance, f *fault) {
	f.blame(c)
	f.hidden = true
	var times [][2]float64
	for at := 60 * c.Float64(); at < horizon.Seconds(); at += c.between(100, 600) {
		times = append(times, [2]float64{at, at + c.between(20, 200)})
	}
	shared := func(before func(time.Duration) float64) func(time.Duration) float64 {
		return func(at time.Duration) float64 {
			for _, t := range times {
				if at.Seconds() >= t[0] && at.Seconds() < t[1] {
					return min(before(at)*40, 0.3/f.share)
				}
			}
			return before(at)
		}
	}
	// If all requests of a group fail, no more can fail: a brown-out leaves room for a worse canary.
	f.canary.worse, f.stable.worse = shared(f.canary.worse), shared(f.stable.worse)
}

// lowTraffic sends at most a few requests per second. A bad canary fails a quarter of them or more.
func lowTraffic(c chance, f *fault) {
	total := c.between(0.5, 4)
	f.share, f.minSamples = 0.01, 5
	f.canary.rate, f.stable.rate = total/2, total/2
	if f.guilty {
		f.canary.worse, f.strong = steadily(c.between(25, 50)), true
	}
}

func counterResets(c chance, f *fault) {
	f.blame(c)
	for _, g := range []*group{&f.canary, &f.stable} {
		g.resets = someTimes(c)
	}
}

// podRestarts replaces pods. In either group, a crashing pod fails some more requests for some seconds.
func podRestarts(c chance, f *fault) {
	if !f.latency {
		f.blame(c)
	}
	for _, g := range []*group{&f.canary, &f.stable} {
		g.restarts = someTimes(c)
	}
}

func missingScrapes(c chance, f *fault) {
	f.blame(c)
	for _, g := range []*group{&f.canary, &f.stable} {
		g.missed = 0.3 * c.Float64()
		from := time.Duration(c.Float64() * float64(horizon))
		g.blind = [2]time.Duration{from, from + time.Duration(c.between(30, 300)*float64(time.Second))}
	}
}

// someTimes returns two to ten times in a release.
func someTimes(c chance) []time.Duration {
	var times []time.Duration
	for range 2 + c.IntN(9) {
		times = append(times, time.Duration(c.Float64()*float64(horizon)).Truncate(step))
	}
	return times
}

func (f fault) String() string { return fmt.Sprintf("%s, guilty %t, run %d", f.kind, f.guilty, f.run) }
