package executor

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/api"
)

type metrics struct {
	conflicts                       prometheus.Counter
	approvals, actions, transitions *prometheus.CounterVec
	stages                          *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_executor_conflicts_total", Help: "Writes that came too late because the object had changed, and were decided again.",
		}),
		approvals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_approvals_total", Help: "Approvals and rejections that came in as events, by result: Accepted, or why they were refused.",
		}, []string{"result"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_executor_actions_total", Help: "Actions carried out, by kind of action and outcome, ok or error.",
		}, []string{"action", "outcome"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_executor_transitions_total", Help: "Changes of state that were decided and committed, by the state that was entered.",
		}, []string{"to"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_executor_stage_duration_seconds", Help: "Duration of the stages of runs: observe, confirm, act, commit, publish.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"stage"}),
	}
	if r != nil {
		r.MustRegister(m.conflicts, m.approvals, m.actions, m.transitions, m.stages)
	}
	return m
}

// countTransitions counts the transitions with a sequence number above after.
func (m *metrics) countTransitions(list []api.Transition, after int64) {
	for _, t := range list {
		if t.Seq > after {
			m.transitions.WithLabelValues(t.To).Inc()
		}
	}
}

// countDecision counts one decision; an empty refusal means that the approval was accepted.
func (m *metrics) countDecision(refusal api.Refusal) {
	m.approvals.WithLabelValues(string(cmp.Or(refusal, "Accepted"))).Inc()
}
