package executor

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ conflicts prometheus.Counter }

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{conflicts: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_executor_conflicts_total", Help: "Writes that came too late because the object had changed, and were decided again.",
	})}
	if r != nil {
		r.MustRegister(m.conflicts)
	}
	return m
}
