// Package analysisestimate calculates how long a comparison of canary and stable takes to decide at a given traffic. It needs no cluster and no Prometheus. It
// measures nothing, and its times are medians for bad requests that come evenly.
//
// Its one invariant: the evidence of pkg/analysis decides, as in a release, so an estimate and the analyzer never differ in their rules.
package analysisestimate

import (
	"math"
	"strconv"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

// Seconds is a duration, which programs read as a number of seconds.
type Seconds float64

// Duration returns the duration, rounded to nanoseconds.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(float64(s) * float64(time.Second)))
}

// Options describe the traffic, and the fields of the comparison.
type Options struct {
	// Rate is the number of requests per second of canary and stable together, above 0.
	Rate float64 `json:"requestsPerSecond"`
	// Weight is the percentage of the requests that the canary gets, above 0 and below 100.
	Weight float64 `json:"weight"`
	// ErrorRate is the share of bad requests of the stable version, above 0 and below 1.
	ErrorRate float64 `json:"errorRate"`
	// Interval is the interval of the metric, 1 s to 24 h.
	Interval Seconds `json:"intervalSeconds"`
	// Step is the length of the step, above 0 and at most MaxTicks intervals.
	Step Seconds `json:"stepSeconds"`
	// Alpha is the field compare.alpha, above 0 and at most 0.2.
	Alpha float64 `json:"alpha"`
	// LongestBurst is the field compare.longestBurst, at most 1 h.
	LongestBurst Seconds `json:"longestBurstSeconds"`
	// Samples is the field passAfter.samples, at least 1.
	Samples float64 `json:"samples"`
	// MaxRatio is the field passAfter.maxRatio, from 1.26 to 18.9.
	MaxRatio float64 `json:"maxRatio"`
}

// Report is an estimate. Programs read it too.
type Report struct {
	Options Options `json:"options"`
	// Interval has the mean requests of one interval, with a canary that is no worse.
	Interval Requests `json:"interval"`
	// Horizon is the time after which the estimate ends without a decision.
	Horizon Seconds `json:"horizonSeconds"`
	// Worse has one entry for each ratio, in ascending order.
	Worse []Worse `json:"worse"`
	// Good is the canary that is no worse.
	Good Good `json:"good"`
	// Hints are full sentences about the limits of the estimate.
	Hints []string `json:"hints"`
}

// Requests are the mean numbers of requests of both versions, and of the bad ones among them.
type Requests struct {
	Canary    float64 `json:"canary"`
	CanaryBad float64 `json:"canaryBad"`
	Stable    float64 `json:"stable"`
	StableBad float64 `json:"stableBad"`
}

// Worse is a canary with more errors than the stable version.
type Worse struct {
	// Ratio is the multiple of the stable version's errors. ErrorRate is the canary's share of bad requests, at most 1.
	Ratio     float64 `json:"ratio"`
	ErrorRate float64 `json:"errorRate"`
	// FailsAfter is nil if the canary does not fail within the horizon. CanaryBad counts its bad requests by then.
	FailsAfter *Seconds `json:"failsAfterSeconds"`
	CanaryBad  *float64 `json:"canaryBad"`
	// InStep reports whether the canary fails before the step ends.
	InStep bool `json:"failsWithinStep"`
}

// Good is a canary that is no worse than the stable version.
type Good struct {
	// PassesAfter is nil if the evidence of passAfter does not come within the horizon.
	PassesAfter *Seconds `json:"passesAfterSeconds"`
	// InStep reports whether the canary passes before the step ends.
	InStep bool `json:"passesWithinStep"`
}

const (
	// MaxTicks limits the horizon, and so the time of the calculation.
	MaxTicks = 20_000
	// leastHorizon is the horizon of shorter steps.
	leastHorizon = 24 * time.Hour
)

// ratios are the multiples of the stable version's errors. hinted is the one that the hint about short steps is about.
var ratios = [...]float64{2, hinted, 5, 10, 30}

const hinted = 3

// Estimate calculates a report. The options must be in the ranges that their fields state.
func Estimate(o Options) Report {
	past, even := o.past(), o.requests(o.Interval.Duration(), 1)
	r := Report{
		Options: o, Horizon: o.after(o.horizonTicks()),
		Interval: Requests{readable(even.CanaryTotal), readable(even.CanaryBad), readable(even.StableTotal), readable(even.StableBad)},
	}
	for _, ratio := range ratios {
		w := Worse{Ratio: ratio, ErrorRate: readable(o.canaryErrorRate(ratio))}
		if ticks := o.firstTick(past, ratio, o.fails); ticks > 0 {
			after := o.after(ticks)
			bad := readable(o.requests(after.Duration(), ratio).CanaryBad)
			w.FailsAfter, w.CanaryBad, w.InStep = &after, &bad, after <= o.Step
		}
		r.Worse = append(r.Worse, w)
	}
	passes := func(e analysis.Evidence) bool {
		return e.Sum.CanaryTotal >= o.Samples && e.RulesOut(o.MaxRatio, o.Samples)
	}
	if ticks := o.firstTick(past, 1, passes); ticks > 0 {
		after := o.after(ticks)
		r.Good = Good{&after, after <= o.Step}
	}
	r.Hints = r.newHints()
	return r
}

// fails reports whether the evidence fails the canary.
func (o Options) fails(e analysis.Evidence) bool { return e.Odds().LogWorse() >= math.Log(1/o.Alpha) }

// firstTick returns the first tick after which the evidence decides about a canary with this many times the errors. It counts from 1, and returns 0 for none.
func (o Options) firstTick(past analysis.Past, ratio float64, decides func(analysis.Evidence) bool) int {
	e, counts := analysis.Evidence{Past: past, Tolerate: 1}, o.requests(o.Interval.Duration(), ratio)
	for tick := 1; tick <= o.horizonTicks(); tick++ {
		if e = e.AddTick(counts); decides(e) {
			return tick
		}
	}
	return 0
}

func (o Options) horizonTicks() int {
	horizon := max(o.Step.Duration(), leastHorizon)
	return int(min(MaxTicks, horizon/o.Interval.Duration()))
}

// after returns the length of some ticks.
func (o Options) after(ticks int) Seconds {
	return Seconds((time.Duration(ticks) * o.Interval.Duration()).Seconds())
}

// past returns the past of a stable version that had all requests, and errors that came evenly.
func (o Options) past() analysis.Past {
	interval, longestBurst := o.Interval.Duration(), o.LongestBurst.Duration()
	step := analysis.PastStep(interval, longestBurst)
	total := o.Rate * step.Seconds()
	ticks := make([]analysis.Tick, analysis.PastLength(interval, longestBurst)/step)
	for i := range ticks {
		ticks[i] = analysis.Tick{Bad: total * o.ErrorRate, Total: total}
	}
	return analysis.NewPast(ticks, interval, longestBurst)
}

// requests returns the mean requests of some time, if the canary has this many times the errors.
func (o Options) requests(during time.Duration, ratio float64) analysis.Counts {
	all := o.Rate * during.Seconds()
	canary, stable := all*o.Weight/100, all*(100-o.Weight)/100
	return analysis.Counts{CanaryBad: canary * o.canaryErrorRate(ratio), CanaryTotal: canary, StableBad: stable * o.ErrorRate, StableTotal: stable}
}

func (o Options) canaryErrorRate(ratio float64) float64 { return min(1, ratio*o.ErrorRate) }

// readable rounds to six digits, because sums of floating-point numbers end in noise.
func readable(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return rounded
}
