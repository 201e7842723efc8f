package watcher

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// heldGauge shows which Rollouts wait until somebody changes something. Watchers show it, for they know all Rollouts at any time;
// an executor knows only those that it was the last to work on.
type heldGauge struct {
	index *index
	desc  *prometheus.Desc
}

func newHeldGauge(x *index) heldGauge {
	return heldGauge{index: x, desc: prometheus.NewDesc("sluice_rollout_held",
		"1 for a Rollout that waits until somebody changes something, by reason.", []string{"namespace", "rollout", "reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (g heldGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g heldGauge) Collect(out chan<- prometheus.Metric) {
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
		if d.held != "" {
			list[name] = d.held
		}
	}
	return list
}
