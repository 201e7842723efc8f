package analysis

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	provider "sluice.dev/sluice/test/prometheus"
)

// shared has the one Prometheus of all tests, and the exporter that it scrapes.
var shared struct {
	once     sync.Once
	server   *provider.Server
	exporter *http.Server
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	err      error
}

// theProvider starts both. With ten scrapes per second, each measurement of a second sees several.
func theProvider(t *testing.T) *provider.Server {
	t.Helper()
	shared.once.Do(func() { shared.err = startProvider() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func startProvider() (err error) {
	shared.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total"}, []string{"namespace", "service", "code"})
	shared.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_request_duration_seconds", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1},
	}, []string{"namespace", "service"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(shared.requests, shared.duration)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	shared.exporter = &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second}
	go func() { _ = shared.exporter.Serve(listener) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if shared.server, err = provider.Start(ctx, provider.Options{Interval: 100 * time.Millisecond}); err != nil {
		return err
	}
	// The labels of the series are the exporter's own.
	return shared.server.Scrape(provider.Target{Address: listener.Addr().String()})
}

func stopProvider() {
	if shared.exporter != nil {
		_ = shared.exporter.Close()
	}
	if shared.server != nil {
		_ = shared.server.Stop()
	}
}

// group describes the answers of one version: the share of failing requests, and the share of slow ones.
type group struct{ bad, slow float64 }

// traffic invents requests to both versions of an application until the test ends.
type traffic struct {
	mu             sync.Mutex
	stable, canary group
	rate           float64
}

const tick = 20 * time.Millisecond

// flow starts with a number of requests per second for each version.
func flow(t *testing.T, namespace string, rate float64) *traffic {
	t.Helper()
	theProvider(t)
	f := &traffic{rate: rate}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		last := time.Now()
		owed := map[string]float64{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				now := time.Now()
				f.answer(namespace, now.Sub(last).Seconds(), owed)
				last = now
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return f
}

// answer counts the answers of both versions in a number of seconds. It counts whole requests; owed has the remaining
// fractions.
func (f *traffic) answer(namespace string, seconds float64, owed map[string]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	whole := func(what string, n float64) int {
		owed[what] += n
		take := int(owed[what])
		owed[what] -= float64(take)
		return take
	}
	for service, g := range map[string]group{"app": f.stable, "app-canary": f.canary} {
		n := f.rate * seconds
		shared.requests.WithLabelValues(namespace, service, "500").Add(float64(whole(service+" bad", n*g.bad)))
		shared.requests.WithLabelValues(namespace, service, "200").Add(float64(whole(service+" good", n*(1-g.bad))))
		latency := shared.duration.WithLabelValues(namespace, service)
		for range whole(service+" slow", n*g.slow) {
			latency.Observe(0.4)
		}
		for range whole(service+" fast", n*(1-g.slow)) {
			latency.Observe(0.008)
		}
	}
}

func (f *traffic) becomes(canary group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.canary = canary
}

func (f *traffic) rates(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}
