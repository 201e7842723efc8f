package prometheus_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"

	"sluice.dev/sluice/test/ports"
	"sluice.dev/sluice/test/prometheus"
)

const interval = 100 * time.Millisecond

// app is an HTTP exporter. After restart, its counters begin at zero.
type app struct {
	address  string
	registry atomic.Pointer[client.Registry]
	requests client.Counter
	seconds  client.Histogram
}

func startApp(t *testing.T) *app {
	t.Helper()
	a := &app{}
	a.restart()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(a.registry.Load(), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.address = server.Listener.Addr().String()
	return a
}

func (a *app) restart() {
	a.requests = client.NewCounter(client.CounterOpts{Name: "requests_total", Help: "Requests."})
	a.seconds = client.NewHistogram(client.HistogramOpts{
		Name: "request_seconds", Help: "Durations.", Buckets: []float64{0.1, 0.2, 0.4},
		NativeHistogramBucketFactor: 1.1,
	})
	registry := client.NewRegistry()
	registry.MustRegister(a.requests, a.seconds)
	a.registry.Store(registry)
}

// scraped returns a Prometheus that has scraped the app.
func scraped(t *testing.T, a *app) *prometheus.Server {
	t.Helper()
	s := prometheus.ForTest(t, prometheus.Options{Interval: interval})
	if err := s.Scrape(prometheus.Target{Address: a.address, Labels: map[string]string{"job": "shop", "track": "canary"}}); err != nil {
		t.Fatal(err)
	}
	await(t, s, a)
	return s
}

func await(t *testing.T, s *prometheus.Server, a *app) {
	t.Helper()
	if err := s.Scraped(patience(t), a.address); err != nil {
		t.Fatal(err)
	}
}

// patience returns a context that ends when a test should give up.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func asking(t *testing.T, s *prometheus.Server) v1.API {
	t.Helper()
	c, err := api.NewClient(api.Config{Address: s.Address})
	if err != nil {
		t.Fatal(err)
	}
	return v1.NewAPI(c)
}

func vector(t *testing.T, s *prometheus.Server, query string) model.Vector {
	t.Helper()
	value, warnings, _, err := asking(t, s).Query(t.Context(), query, time.Time{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %v %v", query, err, warnings)
	}
	return value.(model.Vector)
}

func number(t *testing.T, s *prometheus.Server, query string) float64 {
	t.Helper()
	found := vector(t, s, query)
	if len(found) != 1 {
		t.Fatalf("%s has %d series, not one: %v", query, len(found), found)
	}
	return float64(found[0].Value)
}

func TestAnExporterIsScrapedAndQueried(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	a.requests.Add(7)
	s := scraped(t, a)
	found := vector(t, s, "requests_total")
	if len(found) != 1 || found[0].Value != 7 {
		t.Fatalf("it found %v, not 7 requests", found)
	}
	want := model.Metric{"__name__": "requests_total", "instance": model.LabelValue(a.address), "job": "shop", "track": "canary"}
	if diff := cmp.Diff(want, found[0].Metric); diff != "" {
		t.Error(diff)
	}
	if s.StartedIn <= 0 {
		t.Errorf("it says that it started in %s", s.StartedIn)
	}
}

func TestARangeHoldsWhatWasScrapedMeanwhile(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	a.requests.Add(1)
	s := scraped(t, a)
	a.requests.Add(1)
	await(t, s, a)
	end := time.Now()
	value, _, _, err := asking(t, s).QueryRange(t.Context(), "requests_total", v1.Range{Start: end.Add(-time.Minute), End: end, Step: interval / 2})
	if err != nil {
		t.Fatal(err)
	}
	matrix := value.(model.Matrix)
	if len(matrix) != 1 {
		t.Fatalf("there are %d series, not one", len(matrix))
	}
	seen := map[model.SampleValue]bool{}
	for _, point := range matrix[0].Values {
		seen[point.Value] = true
	}
	if diff := cmp.Diff(map[model.SampleValue]bool{1: true, 2: true}, seen); diff != "" {
		t.Error(diff)
	}
}

// Of ten requests nine took 0.15 s. So the median is in the middle of the bucket from 0.1 to 0.2: 5/9 of the way.
func TestQuantilesOfBothFormsOfAHistogram(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	for range 9 {
		a.seconds.Observe(0.15)
	}
	a.seconds.Observe(0.3)
	s := scraped(t, a)
	if got, want := number(t, s, "histogram_quantile(0.5, request_seconds_bucket)"), 0.1+0.1*5/9; math.Abs(got-want) > 1e-9 {
		t.Errorf("the median by buckets is %v, not %v", got, want)
	}
	if got := number(t, s, "histogram_quantile(0.5, request_seconds)"); math.Abs(got-0.15) > 0.015 {
		t.Errorf("the median of the native histogram is %v, not about 0.15", got)
	}
	if found := vector(t, s, "request_seconds"); len(found) != 1 || found[0].Histogram == nil {
		t.Errorf("%v is no native histogram", found)
	}
}

func TestACounterThatBeginsAnewHasNotFallen(t *testing.T) {
	t.Parallel()
	a := startApp(t)
	a.requests.Add(100)
	s := scraped(t, a)
	a.requests.Add(20)
	await(t, s, a)
	a.restart()
	a.requests.Add(30)
	await(t, s, a)
	if got := number(t, s, "resets(requests_total[1m])"); got != 1 {
		t.Errorf("it saw %v resets, not 1", got)
	}
	// 20 before and 30 after. With three samples, Prometheus may extend the increase by 1.1 intervals at both ends,
	// where two intervals exist.
	if got := number(t, s, "increase(requests_total[1m])"); got < 50 || got > 105 {
		t.Errorf("it grew by %v, not by 50 or a little more", got)
	}
}

func TestATargetThatIsNoLongerNamedGoesStale(t *testing.T) {
	t.Parallel()
	one, other := startApp(t), startApp(t)
	s := scraped(t, one)
	if err := s.Scrape(prometheus.Target{Address: other.address}); err != nil {
		t.Fatal(err)
	}
	await(t, s, other)
	for ctx := patience(t); len(vector(t, s, `up{job="shop"}`)) > 0; {
		if err := s.Scraped(ctx, other.address); err != nil {
			t.Fatal(err)
		}
	}
	if got := number(t, s, "up"); got != 1 {
		t.Errorf("the target that is left is %v, not up", got)
	}
}

func TestATargetThatIsDownIsNotScraped(t *testing.T) {
	t.Parallel()
	s := prometheus.ForTest(t, prometheus.Options{Interval: interval})
	down := ports.Address(t)
	if err := s.Scrape(prometheus.Target{Address: down}); err != nil {
		t.Fatal(err)
	}
	for ctx := patience(t); len(vector(t, s, "up == 0")) == 0; { // it comes with the first scrape
		if ctx.Err() != nil {
			t.Fatal("it was never looked at")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*interval)
	defer cancel()
	if err := s.Scraped(ctx, down); err == nil || !strings.Contains(err.Error(), down) {
		t.Errorf("a target that is down was scraped, or is not named: %v", err)
	}
}
