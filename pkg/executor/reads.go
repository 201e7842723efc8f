package executor

import (
	"github.com/prometheus/client_golang/prometheus"
	"sluice.dev/sluice/pkg/kube"
)

// registerReadMetrics registers counters for the reads of runs: reads from a watch cache and reads from the API server.
func registerReadMetrics(r prometheus.Registerer, kube *kube.Client) {
	if r == nil || kube == nil {
		return
	}
	counter := func(source string, count func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sluice_executor_reads_total", Help: "Reads of what releases look at, by source: answered by a watch's memory, or by the API server.",
			ConstLabels: prometheus.Labels{"source": source},
		}, func() float64 { return float64(count()) })
	}
	r.MustRegister(
		counter("watch", func() int64 { watched, _ := kube.ReadCounts(); return watched }),
		counter("server", func() int64 { _, live := kube.ReadCounts(); return live }),
	)
}
