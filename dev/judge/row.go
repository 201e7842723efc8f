package main

import (
	"fmt"
	"math"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

// row is one kind of release, and the promise about it.
type row struct {
	name string
	// base is the stable group's share of bad requests, and worse is the canary's ratio to it.
	base, worse float64
	// canary and stable are requests per second.
	canary, stable float64
	// own varies the errors of each group separately, and shared varies the errors of both together. They may be nil.
	own, shared func(c chance) source
	// retries is the mean number of bad requests that follow a bad one at once.
	retries float64
	// daily lets requests and errors swing by this part in 24 hours.
	daily float64
	// starting lets the canary's pods fail ten times as often in their first minute; settle is how long the metric waits.
	starting bool
	settle   time.Duration
	// noPast: the metric cannot read the time before the release.
	noPast bool
	// within is the promised median time to fail a bad canary, and caught the promised share of bad ones. Without them, at most alpha of good ones fail.
	within time.Duration
	caught float64
	// waits rows have no promise: bursts last too long for a decision in time, and the judge waits.
	waits bool
	// classical rows are judged by the classical tests as well.
	classical bool
}

// tenMinutes is the promised time where bursts hide a canary that is worse.
const tenMinutes = 10 * time.Minute

// rows returns the acceptance table.
func rows() []row {
	even := row{worse: 1, canary: 50, stable: 50, base: 0.001}
	named := func(r row, name string, change ...func(*row)) row {
		r.name = name
		for _, c := range change {
			c(&r)
		}
		return r
	}
	worse := func(ratio float64, within time.Duration, caught float64) func(*row) {
		return func(r *row) { r.worse, r.within, r.caught, r.waits = ratio, within, caught, within == 0 }
	}
	weight := func(percent, base float64) func(*row) {
		return func(r *row) { r.canary, r.stable, r.base, r.classical = percent, 100-percent, base, false }
	}
	classical := func(r *row) { r.classical = true }
	noPast := func(r *row) { r.noPast = true }
	bursty := func(shape float64, lasts time.Duration) row {
		r := even
		r.base, r.own = 0.01, func(c chance) source { return newBursts(c, shape, lasts) }
		return r
	}
	sharing := func(lasts time.Duration) row {
		r := bursty(0.5, lasts)
		r.own, r.shared = nil, r.own
		return r
	}
	list := []row{
		named(even, "none", classical),
		named(even, "x3", worse(3, 220*time.Second, 0.99), classical),
		named(even, "x5", worse(5, 80*time.Second, 0.99), classical),
		named(even, "x10", worse(10, 40*time.Second, 0.99), classical),
		named(even, "none, canary 1 %", weight(1, 0.005)),
		named(even, "x10, canary 1 %", weight(1, 0.005), worse(10, 2*time.Minute, 0.99)),
		named(even, "none, canary 5 %", weight(5, 0.005), classical),
		named(even, "x3, canary 5 %", weight(5, 0.005), worse(3, 220*time.Second, 0.99), classical),
	}
	for _, lasts := range []time.Duration{5, 10, 20, 30, 60, 120, 180, 300} {
		r := bursty(0.5, lasts*time.Second)
		r.classical = lasts == 10 || lasts == 30
		list = append(list, named(r, fmt.Sprintf("none, bursts of %d s", lasts)))
	}
	list = append(list,
		named(bursty(0.25, look), "none, heavier bursts of 10 s"),
		named(bursty(0.5, look), "none, bursts of 10 s, canary 5 %", weight(5, 0.01)),
		named(bursty(0.5, look), "x3, bursts of 10 s", worse(3, tenMinutes, 0.97), classical),
		named(bursty(0.5, look), "x10, bursts of 10 s", worse(10, tenMinutes, 0.97)),
		named(bursty(0.5, 30*time.Second), "x3, bursts of 30 s", worse(3, 0, 0)),
		named(bursty(0.5, 30*time.Second), "x10, bursts of 30 s", worse(10, tenMinutes, 0.97)),
		named(bursty(0.5, 2*time.Minute), "x10, bursts of 120 s", worse(10, 0, 0)),
		named(bursty(0.5, 5*time.Minute), "x10, bursts of 300 s", worse(10, 0, 0)),
	)
	for _, kind := range []struct {
		name   string
		change func(*row)
		// three and ten are promises for canaries that are worse by these ratios; 0 waits.
		three, ten time.Duration
	}{
		{"shared bursts of 10 s", func(r *row) { r.shared, r.classical = func(c chance) source { return brownout{c, 0.05} }, true }, tenMinutes, tenMinutes},
		{"shared outages of 30 s", func(r *row) {
			r.shared = func(c chance) source { return newOutages(c, 20, 30*time.Second, 5*time.Minute) }
		}, 0, 0},
		{"own outages of 30 s", func(r *row) {
			r.base, r.own = 0.01, func(c chance) source { return newOutages(c, 20, 30*time.Second, 5*time.Minute) }
		}, 0, 0},
		{"2 retries of each error", func(r *row) { r.base, r.retries = 0.005, 2 }, tenMinutes, tenMinutes},
		{"sessions of 3 users", func(r *row) { r.base, r.own = 0.005, func(c chance) source { return newSessions(c, 3, 2*time.Minute) } }, 0, 0},
		{"sessions of 100 users", func(r *row) {
			r.base, r.own = 0.005, func(c chance) source { return newSessions(c, 100, 2*time.Minute) }
		}, tenMinutes, tenMinutes},
		{"few large clients", func(r *row) { r.base, r.shared = 0.005, newClients }, 0, 0},
		{"few large clients, each bound to a version", func(r *row) { r.base, r.own = 0.005, newClients }, 0, 0},
		{"daily cycle", func(r *row) { r.daily = 0.7 }, tenMinutes, tenMinutes},
	} {
		list = append(list,
			named(even, "none, "+kind.name, kind.change),
			named(even, "x3, "+kind.name, kind.change, worse(3, kind.three, 0)),
			named(even, "x10, "+kind.name, kind.change, worse(10, kind.ten, 0.97)),
		)
	}
	return append(list,
		named(even, "none, pods fail in their first minute, settle 1m", func(r *row) { r.starting, r.settle = true, time.Minute }),
		named(sharing(time.Minute), "none, shared bursts of 60 s"),
		named(sharing(5*time.Minute), "none, shared bursts of 300 s"),
		named(bursty(0.5, 5*time.Minute), "none, bursts of 300 s, no past", noPast),
		named(even, "x10, no past", worse(10, 0, 0), noPast),
	)
}

// release simulates the counts of one release, and the time before it.
type release struct {
	row
	c                    chance
	mine, theirs, shared source
	at                   time.Duration
}

func (r row) newRelease(c chance) *release {
	one := func(of func(chance) source) source {
		if of == nil {
			return steady{}
		}
		return of(c)
	}
	return &release{row: r, c: c, mine: one(r.own), theirs: one(r.own), shared: one(r.shared), at: time.Duration(c.Float64() * 24 * float64(time.Hour))}
}

// next draws the counts of the next time d.
func (r *release) next(d time.Duration, worse float64) analysis.Counts {
	day := 1 + r.daily*math.Sin(2*math.Pi*r.at.Hours()/24)
	r.at += d
	shared := r.base * day * r.shared.next(d)
	bad := func(total, share float64) float64 {
		errors := r.c.poisson(min(1, share) * total / (1 + r.retries))
		if r.retries > 0 {
			errors += r.c.poisson(errors * r.c.gamma(max(errors, 1)) * r.retries) // the sum of that many geometric numbers
		}
		return min(total, errors)
	}
	n := analysis.Counts{CanaryTotal: r.c.poisson(r.canary * day * d.Seconds()), StableTotal: r.c.poisson(r.stable * day * d.Seconds())}
	n.CanaryBad, n.StableBad = bad(n.CanaryTotal, shared*worse*r.mine.next(d)), bad(n.StableTotal, shared*r.theirs.next(d))
	return n
}

// past draws the time before the release.
func (r *release) past() []analysis.Tick {
	if r.noPast {
		return nil
	}
	list := make([]analysis.Tick, 0, 400)
	for range int(analysis.PastLength(look, longestBurst) / analysis.PastStep(look, longestBurst)) {
		n := r.next(analysis.PastStep(look, longestBurst), 1)
		list = append(list, analysis.Tick{Bad: n.CanaryBad + n.StableBad, Total: n.CanaryTotal + n.StableTotal})
	}
	return list
}
