package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the Prometheus metrics of a Client.
type Metrics struct {
	queries *prometheus.CounterVec
	seconds prometheus.Histogram
	breaker *prometheus.GaugeVec
}

// NewMetrics registers the metrics; with nil it registers none. It panics if they are registered already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_metric_queries_total", Help: "Queries to metrics providers, by how they ended.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_metric_query_duration_seconds", Help: "Duration of queries, with the wait for a turn.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_metric_provider_down", Help: "1 for each provider that fails and is therefore asked less often.",
		}, []string{"provider"}),
	}
	for _, outcome := range []Outcome{Answered, NotAllowed, BadSecret, Unreachable, BadTLS, Unauthorized, Redirected, Late, TooLarge,
		NotPrometheus, BadQuery, QueryFailed, ProviderFailed, Throttled, Rested, Panicked, Ended} {
		m.queries.WithLabelValues(string(outcome)) // created at the start, so that a rate has a beginning
	}
	if r != nil {
		r.MustRegister(m.queries, m.seconds, m.breaker)
	}
	return m
}

func (m *Metrics) observeQuery(outcome Outcome, d time.Duration) {
	m.queries.WithLabelValues(string(outcome)).Inc()
	m.seconds.Observe(d.Seconds())
}

// setBreakerOpen keeps series only of providers that are down, because tenants choose the names.
func (m *Metrics) setBreakerOpen(provider string, down bool) {
	if down {
		m.breaker.WithLabelValues(provider).Set(1)
		return
	}
	m.breaker.DeleteLabelValues(provider)
}
