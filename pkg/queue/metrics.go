package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are a consumer's figures.
type Metrics struct {
	hints, panics, conflicts prometheus.Counter
	held                     prometheus.Gauge
	runs                     *prometheus.HistogramVec
}

// NewMetrics registers the figures; nil means that nobody reads them. It panics
// if they are registered already.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		hints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_queue_hints_total", Help: "Hints delivered to this process.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_queue_panics_total", Help: "Runs that panicked.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_queue_lease_conflicts_total", Help: "Runs put off because another process held the lease.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_queue_held_hints", Help: "Hints that this process holds, running or about to run.",
		}),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_queue_run_seconds", Help: "Duration of runs by outcome, ok or error.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"outcome"}),
	}
	if r != nil {
		r.MustRegister(m.hints, m.panics, m.conflicts, m.held, m.runs)
	}
	return m
}

func (m *Metrics) observe(err error, d time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.runs.WithLabelValues(outcome).Observe(d.Seconds())
}
