package main

import (
	"slices"
	"sync"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

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

// kept reports whether the judges of Sluice keep the row's promise, for errors and for latency. Latency has half as much time again, because a bucket's bound
// separates slow requests from others only roughly.
func (o outcome) kept() bool {
	for judge, within := range []time.Duration{o.row.within, o.row.within * 3 / 2} {
		switch {
		case o.row.waits:
		case within == 0 && o.failed(judge) > alpha:
			return false
		case within > 0 && (o.median(judge) == 0 || o.median(judge) > within || o.failed(judge) < o.row.caught):
			return false
		}
	}
	return true
}

// playRows plays each row this often. A quarter is enough where a row promises minutes, waits, or has no past to decide with.
func playRows(rows []row, runs int, seed uint64) []outcome {
	var list []outcome
	for _, r := range rows {
		if r.waits || r.noPast || r.within >= tenMinutes {
			list = append(list, playRow(r, (runs+3)/4, seed))
		} else {
			list = append(list, playRow(r, runs, seed))
		}
	}
	return list
}

func playRow(r row, runs int, seed uint64) outcome {
	o := outcome{row: r, runs: runs, times: make([][]time.Duration, len(judgeNames()))}
	var lock sync.Mutex
	each(runs, func(run int) {
		decided := r.play(newChance(seed, uint64(run)))
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
func (r row) play(c chance) []time.Duration {
	simulated := r.newRelease(c)
	list := []judge{newErrors(simulated), newLatency(simulated)}
	if r.classical {
		list = append(list, classicalJudges()...)
	}
	decided, open := make([]time.Duration, len(list)), len(list)
	for tick := 1; tick <= looks() && open > 0; tick++ {
		at, worse := time.Duration(tick)*look, r.worse
		if r.starting && at <= time.Minute {
			worse *= 10
		}
		counts := simulated.next(look, worse)
		for i, j := range list {
			if decided[i] == 0 && j.fails(at, counts) {
				decided[i] = at
				open--
			}
		}
	}
	return decided
}

// ours is a comparison of pkg/analysis, as the analyzer runs it.
type ours struct {
	spec  analysis.Metric
	state analysis.State
	past  *analysis.Past
	// latency turns counts into latencies; nil for errors.
	latency *latencies
}

// begin is the time of the change of traffic.
var begin = time.Unix(1_800_000_000, 0).UTC()

func newErrors(r *release) *ours {
	const query = "requests[6m]"
	o := r.newOurs(&api.Compare{Counts: &api.CompareCounts{CanaryBad: query, CanaryTotal: query, StableBad: query, StableTotal: query}})
	if !r.noPast {
		past := analysis.NewPast(r.past(), look, longestBurst)
		o.past = &past
	}
	return o
}

// newOurs panics if a definition is wrong, because they are all written here.
func (r *release) newOurs(compare *api.Compare) *ours {
	spec, err := analysis.ParseMetric(api.Metric{
		Name: "judged", Interval: api.Duration(look.String()), Settle: api.Duration(r.settle.String()), Prometheus: api.Prometheus{Address: "http://simulated.svc"}, Compare: compare,
	}, nil)
	if err != nil {
		panic(err)
	}
	return &ours{spec: spec, state: analysis.NewState(begin)}
}

func (o *ours) fails(at time.Duration, c analysis.Counts) bool {
	if c.CanaryTotal == 0 || c.StableTotal == 0 {
		return false
	}
	m := analysis.Measurement{At: begin.Add(at), Counts: &c, Past: o.past}
	if o.latency != nil {
		m.Counts, m.Canary, m.Stable = nil, o.latency.draw(c.CanaryTotal, c.CanaryBad), o.latency.draw(c.StableTotal, c.StableBad)
	}
	o.past = nil
	o.state, _ = analysis.NextState(o.state, m, o.spec, begin.Add(at))
	return o.state.Phase == api.MetricFailed
}
