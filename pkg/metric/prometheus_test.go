package metric_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	client_golang "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/test/prometheus"
)

// exporter serves one counter, one gauge, and one histogram in both forms.
func exporter(t *testing.T) string {
	t.Helper()
	requests := client_golang.NewCounter(client_golang.CounterOpts{Name: "requests_total", Help: "Requests."})
	requests.Add(7)
	load := client_golang.NewGauge(client_golang.GaugeOpts{Name: "load", Help: "Load."})
	seconds := client_golang.NewHistogram(client_golang.HistogramOpts{
		Name: "request_seconds", Help: "Durations.", Buckets: []float64{0.1, 0.2}, NativeHistogramBucketFactor: 1.1,
	})
	seconds.Observe(0.15)
	registry := client_golang.NewRegistry()
	registry.MustRegister(requests, load, seconds)
	server := serve(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP)
	return server.Listener.Addr().String()
}

func scraped(t *testing.T) (address, instance string) {
	t.Helper()
	real := prometheus.ForTest(t, prometheus.Options{})
	instance = exporter(t)
	if err := real.Scrape(prometheus.Target{Address: instance, Labels: map[string]string{"job": "shop"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range 2 { // so that a rate has two samples
		if err := real.Scraped(ctx, instance); err != nil {
			t.Fatal(err)
		}
	}
	return real.Address, instance
}

func TestARealPrometheusIsUnderstood(t *testing.T) {
	t.Parallel()
	address, instance := scraped(t)
	named := map[string]string{"__name__": "requests_total", "instance": instance, "job": "shop"}
	histogram := map[string]string{"__name__": "request_seconds", "instance": instance, "job": "shop"}
	single := func(value float64) []analysis.Point { return []analysis.Point{{Value: value}} }
	cases := map[string]struct {
		query string
		want  analysis.Result
	}{
		"a vector":                {"requests_total", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Labels: named, Points: single(7)}}}},
		"a vector without labels": {"sum(requests_total)", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Points: single(7)}}}},
		"an empty vector":         {"nothing_like_it", analysis.Result{Kind: analysis.KindVector}},
		"a scalar":                {"scalar(requests_total)", analysis.Result{Kind: analysis.KindScalar, Series: []analysis.Series{{Points: single(7)}}}},
		"a scalar of nothing":     {"scalar(nothing_like_it)", analysis.Result{Kind: analysis.KindScalar, Series: []analysis.Series{{Points: single(math.NaN())}}}},
		"a string":                {`"text"`, analysis.Result{Kind: analysis.KindString, Text: "text"}},
		"no number":               {"vector(0)/0", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Points: single(math.NaN())}}}},
		"infinity":                {"vector(1)/0", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Points: single(math.Inf(1))}}}},
		"minus infinity":          {"vector(-1)/0", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Points: single(math.Inf(-1))}}}},
		"a native histogram":      {"request_seconds", analysis.Result{Kind: analysis.KindVector, Series: []analysis.Series{{Labels: histogram, Histogram: true}}}},
		"native histograms over time": {"request_seconds[1m]", analysis.Result{Kind: analysis.KindMatrix,
			Series: []analysis.Series{{Labels: histogram, Histogram: true}}}},
		"an empty matrix": {"nothing_like_it[1m]", analysis.Result{Kind: analysis.KindMatrix}},
	}
	c, _ := client(t, nil)
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			request := at(address)
			request.Query = want.query
			got, err := c.Query(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			for _, series := range got.Series {
				for _, point := range series.Points {
					if age := time.Since(point.At); age < -time.Second || age > time.Hour {
						t.Errorf("a point is of %s", point.At)
					}
				}
			}
			if diff := cmp.Diff(want.want, got.Result, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(analysis.Point{}, "At")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheTimeOfAQueryIsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	address, _ := scraped(t)
	c, _ := client(t, nil)
	when := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	request := at(address)
	request.Query, request.At = "vector(time())", when
	got, err := c.Query(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	point := got.Series[0].Points[0]
	if want := float64(when.UnixMilli()) / 1000; point.Value != want || !point.At.Equal(when) {
		t.Errorf("it is of %s and %v, not of %s", point.At, point.Value, when)
	}
	request.Range = &metric.Range{Start: when, End: when.Add(time.Minute), Step: 30 * time.Second}
	if got, err = c.Query(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for _, point := range got.Series[0].Points {
		times = append(times, point.At.Sub(when))
	}
	if diff := cmp.Diff([]time.Duration{0, 30 * time.Second, time.Minute}, times); diff != "" || got.Kind != analysis.KindMatrix {
		t.Error(got.Kind, diff)
	}
}

func TestWarningsAndInfosOfARealPrometheusAreToldApart(t *testing.T) {
	t.Parallel()
	address, _ := scraped(t)
	c, _ := client(t, nil)
	for query, want := range map[string][2]string{
		"requests_total": {"[]", "[]"},
		"histogram_quantile(2, request_seconds_bucket)": {"quantile value should be between 0 and 1", "[]"},
		"rate(load[1m])": {"[]", "might not be a counter"},
	} {
		request := at(address)
		request.Query = query
		got, err := c.Query(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for i, texts := range [][]string{got.Warnings, got.Infos} {
			if said := fmt.Sprint(texts); !strings.Contains(said, want[i]) {
				t.Errorf("%s: it says %s, not %q", query, said, want[i])
			}
		}
	}
}

func TestMistakesInQueriesAreTheirAuthors(t *testing.T) {
	t.Parallel()
	address, _ := scraped(t)
	c, _ := client(t, nil)
	hour := &metric.Range{Start: time.Now().Add(-time.Hour), End: time.Now(), Step: time.Millisecond}
	cases := map[string]struct {
		query string
		over  *metric.Range
		want  metric.Outcome
		text  string
	}{
		"it cannot be read":       {"sum(", nil, metric.BadQuery, `cannot read the query: "invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis"`},
		"it is empty":             {"", nil, metric.BadQuery, "no expression found in input"},
		"it matches many to many": {"request_seconds_bucket * on(job) request_seconds_bucket", nil, metric.QueryFailed, "found duplicate series for the match group"},
		"it has too many points":  {"up", hour, metric.BadQuery, "exceeded maximum resolution of 11,000 points"},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			request := at(address)
			request.Query, request.Range = want.query, want.over
			_, err := c.Query(t.Context(), request)
			if metric.OutcomeOf(err) != want.want || !strings.Contains(fmt.Sprint(err), want.text) {
				t.Errorf("it is %s: %v", metric.OutcomeOf(err), err)
			}
		})
	}
}
