package analyzer

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

// selfMetrics are the metrics of the analyzer itself.
type selfMetrics struct {
	measurements, verdicts *prometheus.CounterVec
	late                   prometheus.Counter
	lateness               prometheus.Histogram
	conflicts              prometheus.Counter

	clock func() time.Time
	mu    sync.Mutex
	// until holds the time of the next run of each Rollout that this process measures, plus a grace. After that time another process has the Rollout.
	until map[types.NamespacedName]time.Time
}

// trackGrace is the delay after the planned run from which another process is assumed to measure the Rollout.
const trackGrace = time.Minute

func newSelfMetrics(r prometheus.Registerer, clock func() time.Time) *selfMetrics {
	f := &selfMetrics{
		clock: clock, until: map[types.NamespacedName]time.Time{},
		measurements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_analysis_measurements_total", Help: "Measurements that counted, by outcome.",
		}, []string{"outcome"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_analysis_verdicts_total", Help: "Verdicts of analyses that were shown, by their new phase.",
		}, []string{"phase"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_analysis_late_measurements_total", Help: "Measurements made more than a tenth of their interval after their time.",
		}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_analysis_schedule_delay_seconds", Help: "Time from when a measurement was due until it counted.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_analysis_conflicts_total", Help: "Reconciliations that began again because another client had written meanwhile.",
		}),
	}
	for _, outcome := range []analysis.Outcome{analysis.OutcomePass, analysis.OutcomeFail, analysis.OutcomeInconclusive, analysis.OutcomeNoData, analysis.OutcomeError} {
		f.measurements.WithLabelValues(string(outcome)) // the counter exists from the start, so that a rate has a beginning
	}
	for _, phase := range []api.AnalysisPhase{api.AnalysisRunning, api.AnalysisPassing, api.AnalysisPassed, api.AnalysisWaiting, api.AnalysisInconclusive, api.AnalysisFailed} {
		f.verdicts.WithLabelValues(string(phase))
	}
	if r != nil {
		r.MustRegister(f.measurements, f.verdicts, f.late, f.lateness, f.conflicts, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_analysis_running", Help: "Rollouts that are being measured by this process.",
		}, f.runningRollouts))
	}
	return f
}

func (f *selfMetrics) countMeasurement(c countedMeasurement) {
	f.measurements.WithLabelValues(string(c.verdict.Measured.Outcome)).Inc()
	f.lateness.Observe(c.verdict.Lateness.Seconds())
	if c.verdict.Lateness > c.metric.Interval/10 {
		f.late.Inc()
	}
}

func (f *selfMetrics) trackRollout(name types.NamespacedName, wake time.Time) {
	if wake.IsZero() {
		f.untrackRollout(name)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[name] = wake.Add(trackGrace)
}

func (f *selfMetrics) untrackRollout(name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.until, name)
}

func (f *selfMetrics) runningRollouts() float64 {
	now := f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, until := range f.until {
		if now.After(until) {
			delete(f.until, name)
		}
	}
	return float64(len(f.until))
}
