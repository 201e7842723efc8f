package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

const interval = 30 * time.Second

// ruling is the verdict of the analysis at the end of a release.
type ruling struct {
	fault fault
	phase api.MetricPhase
	after time.Duration
}

func playFaults(cases int, seed uint64) []ruling {
	names := slices.Sorted(maps.Keys(kinds()))
	list := make([]ruling, len(names)*cases*2)
	each(len(list), func(i int) {
		f, c := newFault(names[i/(2*cases)], i%2 == 0, seed+1000, uint64(i))
		phase, after, err := f.play(c)
		if err != nil {
			panic(err) // the metric is defined below
		}
		list[i] = ruling{fault: f, phase: phase, after: after}
	})
	return list
}

// definition returns the metric as in a template.
func (f fault) definition() api.Metric {
	d := api.Metric{Name: f.kind, Interval: "30s", Prometheus: api.Prometheus{Address: "http://simulated.svc"}, Compare: &api.Compare{}}
	if f.latency {
		d.Compare.Latency = &api.CompareLatency{Canary: "canary_bucket[6m]", Stable: "stable_bucket[6m]"}
		return d
	}
	d.Compare.Counts = &api.CompareCounts{
		CanaryBad: "canary_errors[6m]", CanaryTotal: "canary_requests[6m]", StableBad: "stable_errors[6m]", StableTotal: "stable_requests[6m]",
	}
	if f.minSamples > 0 {
		d.MinSamples = &api.MinSamples{Query: "sum(increase(canary_requests[30s]))", AtLeast: f.minSamples}
	}
	return d
}

// play simulates the release, and judges it at every interval until the metric has ended.
func (f fault) play(c chance) (api.MetricPhase, time.Duration, error) {
	metric, err := analysis.ParseMetric(f.definition(), nil)
	if err != nil {
		return "", 0, fmt.Errorf("parse metric: %w", err)
	}
	canary, stable := newCluster(f.canary, f.share), newCluster(f.stable, f.share)
	state, key := analysis.NewState(begin), f.String()
	past := metric.AskPast(func(q analysis.PastQuery) (analysis.Result, error) { return f.past(c, q), nil })
	for at := step; at <= horizon; at += step {
		canary.advance(c, begin, at, f.latency)
		stable.advance(c, begin, at, f.latency)
		now := begin.Add(at)
		due := analysis.NextDue(state, metric, key, now)
		if due.After(now) {
			continue
		}
		answers := f.answers(canary, stable, due)
		if state.NeedsPast(metric, due) {
			answers.Past = past
		}
		state, _ = analysis.NextState(state, metric.Measure(due, answers), metric, now)
		if state.Ended {
			return state.Phase, at, nil
		}
	}
	return state.Phase, horizon, nil
}

func (f fault) answers(canary, stable *cluster, at time.Time) analysis.Answers {
	if f.latency {
		return analysis.Answers{CanaryBuckets: canary.buckets(at), StableBuckets: stable.buckets(at)}
	}
	return analysis.Answers{
		Samples:   analysis.CounterRise(canary.counter(at, 0), at.Add(-interval), at),
		CanaryBad: canary.counter(at, 1), CanaryTotal: canary.counter(at, 0),
		StableBad: stable.counter(at, 1), StableTotal: stable.counter(at, 0),
	}
}

// past answers a query about the stable group before the release. The disturbances of the release came before it as well, and again every half hour.
func (f fault) past(c chance, q analysis.PastQuery) analysis.Result {
	result := analysis.Result{Kind: analysis.KindMatrix}
	total := (f.canary.rate + f.stable.rate) * q.Step.Seconds()
	each := func(labels map[string]string, count func(at time.Duration) float64) {
		s := analysis.Series{Labels: labels}
		for at := time.Duration(0); at < q.Length; at += q.Step {
			s.Points = append(s.Points, analysis.Point{At: begin.Add(at - q.Length), Value: count(at)})
		}
		result.Series = append(result.Series, s)
	}
	switch q.Name {
	case "stableBad":
		each(nil, func(at time.Duration) float64 { return c.poisson(total * min(1, f.share*f.stable.worse(at%horizon))) })
	case "stableTotal":
		each(nil, func(time.Duration) float64 { return c.poisson(total) })
	default:
		slower, below := map[time.Duration]float64{}, 0.0
		for i, chance := range lognormal(median, deviation) {
			each(map[string]string{"le": strconv.FormatFloat(bounds()[i], 'g', -1, 64)}, func(at time.Duration) float64 {
				slower[at] += c.poisson(total * (chance - below)) // buckets are cumulative
				return slower[at]
			})
			below = chance
		}
	}
	return result
}

// tally counts rulings. A ruling is right if the canary failed and was guilty, or neither. Open faults are not hidden.
type tally struct {
	guilty, caught, open, openCaught, strong, strongCaught, innocent, accused int
	times                                                                     []time.Duration
}

func (t *tally) add(r ruling) {
	failed := r.phase == api.MetricFailed
	switch {
	case !r.fault.guilty:
		t.innocent++
		t.accused += one(failed)
	default:
		t.guilty++
		t.caught += one(failed)
		if !r.fault.hidden {
			t.open++
			t.openCaught += one(failed)
			t.strong += one(r.fault.strong)
			t.strongCaught += one(failed && r.fault.strong)
		}
		if failed {
			t.times = append(t.times, r.after)
		}
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (t *tally) precision() float64    { return share(t.caught, t.caught+t.accused) }
func (t *tally) recall() float64       { return share(t.openCaught, t.open) }
func (t *tally) strongRecall() float64 { return share(t.strongCaught, t.strong) }

// median returns the median time to detection; 0 without detections.
func (t *tally) median() time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	slices.Sort(t.times)
	return t.times[len(t.times)/2]
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// These are the goals: the share of failed canaries that are guilty, and the share of strong faults that are failed.
const (
	precisionGoal    = 0.95
	recallGoal       = 0.95
	strongRecallGoal = 0.99
)

// printFaults prints precision and recall, and returns the number of missed goals.
func printFaults(w io.Writer, list []ruling) int {
	all, kind := tally{}, map[string]*tally{}
	for _, r := range list {
		all.add(r)
		if kind[r.fault.kind] == nil {
			kind[r.fault.kind] = &tally{}
		}
		kind[r.fault.kind].add(r)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tguilty\tfailed\tmedian time\tinnocent\tfailed\t")
	for _, name := range slices.Sorted(maps.Keys(kind)) {
		k, note := kind[name], ""
		if k.open < k.guilty {
			note = "hidden by bursts, so the judge may wait"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%d\t%s\n", name, k.guilty, k.caught, seconds(k.median()), k.innocent, k.accused, note)
	}
	_ = t.Flush() // writes to the same terminal as everything else
	missed := 0
	fmt.Fprintf(w, "\n%d cases: ", len(list))
	for i, goal := range []struct {
		name         string
		value, least float64
	}{
		{"precision", all.precision(), precisionGoal}, {"recall of faults that nothing hides", all.recall(), recallGoal},
		{"of them, errors x3 or p99 x2 and more", all.strongRecall(), strongRecallGoal},
	} {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%s %.1f %% (goal %.0f %%)", goal.name, goal.value*100, goal.least*100)
		if goal.value < goal.least {
			missed++
			fmt.Fprint(w, " MISSED")
		}
	}
	fmt.Fprintln(w, ".")
	return missed
}
