package analysis

import (
	"math"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// begin is the time of the last change of traffic.
func begin() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }

const address = "http://prometheus.monitoring.svc:9090"

// aDefinition is a metric with a rule: ten measurements, and one may fail.
func aDefinition(change ...func(*api.Metric)) api.Metric {
	d := api.Metric{
		Name: "success-rate", Interval: "30s", Count: 10, FailureLimit: 1, InconclusiveLimit: 2,
		Prometheus: api.Prometheus{Address: address, Query: `sum(rate(ok[1m])) / sum(rate(all[1m]))`}, PassWhen: "value >= 0.99", FailWhen: "value < 0.95",
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

// aComparison compares the errors of canary and stable group.
func aComparison(change ...func(*api.Metric)) api.Metric {
	d := api.Metric{Name: "errors", Interval: "30s", Prometheus: api.Prometheus{Address: address}, Compare: &api.Compare{
		Counts: &api.CompareCounts{
			CanaryBad: "increase(canary_errors[{{args.interval}}])", CanaryTotal: "increase(canary[{{args.interval}}])",
			StableBad: "increase(stable_errors[{{args.interval}}])", StableTotal: "increase(stable[{{args.interval}}])",
		},
		PassAfter:    &api.PassAfter{Samples: 2000, MaxRatio: 1.5},
		LongestBurst: "0s",
	}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func aLatency(change ...func(*api.Metric)) api.Metric {
	d := api.Metric{Name: "latency", Interval: "30s", Prometheus: api.Prometheus{Address: address}, Compare: &api.Compare{Latency: &api.CompareLatency{
		Canary: "sum by (le) (increase(canary_bucket[30s]))", Stable: "sum by (le) (increase(stable_bucket[30s]))",
	}, LongestBurst: "0s"}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func parsed(t *testing.T, d api.Metric) Metric {
	t.Helper()
	m, err := ParseMetric(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// vector has one series for each value.
func vector(values ...float64) Result {
	r := Result{Kind: KindVector}
	for _, v := range values {
		r.Series = append(r.Series, Series{Points: []Point{{At: begin(), Value: v}}})
	}
	return r
}

// matrix has one series with the values, a quarter of a minute apart.
func matrix(values ...float64) Result {
	s := Series{}
	for i, v := range values {
		s.Points = append(s.Points, Point{At: begin().Add(time.Duration(i) * 15 * time.Second), Value: v})
	}
	return Result{Kind: KindMatrix, Series: []Series{s}}
}

// staleMarker is the NaN with which Prometheus marks the end of a series.
func staleMarker() float64 { return math.Float64frombits(0x7ff0000000000002) }

// play folds outcomes into a run, one for each interval, the first as soon as the window allows.
func play(spec Metric, s State, outcomes ...Outcome) (State, Verdict) {
	var v Verdict
	for _, o := range outcomes {
		at := NextDue(s, spec, "key", s.LastAt)
		if at.IsZero() {
			at = s.LastAt.Add(spec.Interval)
		}
		s, v = NextState(s, Measurement{At: at, Outcome: o, Message: "Measured."}, spec, at)
	}
	return s, v
}

// times repeats an outcome.
func times(n int, o Outcome) []Outcome {
	list := make([]Outcome, n)
	for i := range list {
		list[i] = o
	}
	return list
}
