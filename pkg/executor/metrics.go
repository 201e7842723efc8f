package executor

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

type metrics struct {
	conflicts prometheus.Counter
	held      *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_executor_conflicts_total", Help: "Writes that came too late because the object had changed, and were decided again.",
		}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_rollout_held", Help: "1 for a Rollout that waits until somebody changes something, by reason; seen by this executor.",
		}, []string{"namespace", "rollout", "reason"}),
	}
	if r != nil {
		r.MustRegister(m.conflicts, m.held)
	}
	return m
}

func (m *metrics) forget(name types.NamespacedName) {
	m.held.DeletePartialMatch(prometheus.Labels{"namespace": name.Namespace, "rollout": name.Name})
}

func (m *metrics) observe(name types.NamespacedName, seen rollout.Seen) {
	m.forget(name)
	for _, c := range seen.Status.Conditions {
		if c.Type == api.ConditionHeld {
			m.held.WithLabelValues(name.Namespace, name.Name, string(c.Reason)).Set(1)
		}
	}
}
