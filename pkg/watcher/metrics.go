package watcher

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// stalledGauge shows which Rollouts wait until a user changes something. Watchers show it because they know all
// Rollouts at any time. An executor knows only the Rollouts that it was the last to work on.
type stalledGauge struct {
	index *index
	desc  *prometheus.Desc
}

func newStalledGauge(x *index) stalledGauge {
	return stalledGauge{index: x, desc: prometheus.NewDesc("sluice_rollout_stalled",
		"1 for a Rollout that waits until a user changes something, by reason.", []string{"namespace", "rollout", "reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (g stalledGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g stalledGauge) Collect(out chan<- prometheus.Metric) {
	for name, reason := range g.index.heldReasons() {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, 1, name.Namespace, name.Name, string(reason))
	}
}

// heldReasons returns the Rollouts that wait until a user changes something, and the reasons.
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
