package fleetlink

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a cluster about its hub.
type metrics struct {
	refusals, answers *prometheus.CounterVec
	connected         prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_fleet_orders_refused_total", Help: "Orders of the hub that this cluster has refused, by reason.",
		}, []string{"reason"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_fleet_answers_total", Help: "Answers to the hub by outcome, ok or error.",
		}, []string{"outcome"}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_fleet_hub_connected", Help: "1 while this process is connected to the NATS of the hub.",
		}),
	}
	if r != nil {
		r.MustRegister(m.refusals, m.answers, m.connected)
	}
	return m
}

func (m *metrics) setConnected(is bool) {
	m.connected.Set(0)
	if is {
		m.connected.Set(1)
	}
}

func (m *metrics) countAnswer(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.answers.WithLabelValues(outcome).Inc()
}
