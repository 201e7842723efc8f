package watcher

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// stalledGauge shows which Rollouts wait until somebody changes something. Watchers show it, for they know all Rollouts at any time;
// an executor knows only those that it was the last to work on.
type stalledGauge struct {
	index *index
	desc  *prometheus.Desc
}

func newStalledGauge(x *index) stalledGauge {
	return stalledGauge{index: x, desc: prometheus.NewDesc("sluice_rollout_stalled",
		"1 for a Rollout that waits until somebody changes something, by reason.", []string{"namespace", "rollout", "reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (g stalledGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g stalledGauge) Collect(out chan<- prometheus.Metric) {
	for name, reason := range g.index.heldReasons() {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, 1, name.Namespace, name.Name, string(reason))
	}
}

// heldReasons are the Rollouts that wait until somebody changes something, and why.
func (x *index) heldReasons() map[types.NamespacedName]api.Reason {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := map[types.NamespacedName]api.Reason{}
	for name, d := range x.rollouts {
		if d.stalled != "" {
			list[name] = d.stalled
		}
	}
	return list
}
