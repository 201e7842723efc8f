package analyzer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/analysis"
)

// values returns the counters and gauges of a registry, summed by name; for a histogram, the number of its samples.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			list[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return list
}

func TestWhatAnAnalyzerTellsOfItself(t *testing.T) {
	t.Parallel()
	now, registry := noon(), prometheus.NewRegistry()
	f := newSelfMetrics(registry, func() time.Time { return now })
	m := aMetric(t, "a")
	f.countMeasurement(countedMeasurement{metric: m, verdict: analysis.Verdict{Lateness: time.Second, Measured: analysis.Measurement{Outcome: pass}}})
	f.countMeasurement(countedMeasurement{metric: m, verdict: analysis.Verdict{Lateness: 4 * time.Second, Measured: analysis.Measurement{Outcome: fail}}})
	f.trackRollout(types.NamespacedName{Name: "a"}, noon().Add(30*time.Second))
	f.trackRollout(types.NamespacedName{Name: "b"}, noon().Add(5*time.Minute))
	f.trackRollout(types.NamespacedName{Name: "c"}, noon().Add(5*time.Minute))
	f.untrackRollout(types.NamespacedName{Name: "c"})
	want := map[string]float64{
		"sluice_analysis_measurements_total": 2, "sluice_analysis_late_measurements_total": 1, "sluice_analysis_schedule_delay_seconds": 2,
		"sluice_analysis_running": 2, "sluice_analysis_verdicts_total": 0, "sluice_analysis_conflicts_total": 0,
	}
	if diff := cmp.Diff(want, values(t, registry)); diff != "" {
		t.Error(diff)
	}
	now = noon().Add(2 * time.Minute) // another process has a by now
	want["sluice_analysis_running"] = 1
	if diff := cmp.Diff(want, values(t, registry)); diff != "" {
		t.Error(diff)
	}
}
