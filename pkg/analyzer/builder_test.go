package analyzer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
)

// noon is the last traffic change of tests.
func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func micro(t time.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(t)
	return &at
}

// aMetric takes three measurements, one every 30 seconds, and allows no failure.
func aMetric(t testing.TB, name string, change ...func(*api.Metric)) kube.AnalysisMetric {
	t.Helper()
	d := api.Metric{
		Name: name, Interval: "30s", Count: 3, Prometheus: api.Prometheus{Address: "http://p.m.svc:9090", Query: "up"},
		PassWhen: "value >= 1", FailWhen: "value < 0.5", InconclusiveLimit: 1,
	}
	for _, c := range change {
		c(&d)
	}
	m, err := analysis.ParseMetric(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kube.AnalysisMetric{Metric: m, Template: "AnalysisTemplate/rates", Digest: "d1"}
}

// aRun returns a run of a step as the executor writes it.
func aRun(metrics ...kube.AnalysisMetric) kube.AnalysisRun {
	return kube.AnalysisRun{Scope: kube.ScopeStep, Metrics: metrics, Record: &api.AnalysisRun{
		Phase: api.AnalysisRunning, Message: "Nothing has been measured yet.", Epoch: 3, Step: 2, PauseSeq: 7,
		StartedAt: micro(noon()), RoutedAt: micro(noon()), RenewBy: micro(noon().Add(30 * time.Second)),
	}}
}

// aTask returns a run without measurements.
func aTask(metrics ...kube.AnalysisMetric) *task {
	t := &task{uid: "6f1c", run: aRun(metrics...)}
	t.loadStates(nil, 0)
	return t
}

// outcomes counts outcomes of a metric, one for each interval.
func (t *task) outcomes(metric int, outcomes ...analysis.Outcome) *task {
	for _, o := range outcomes {
		spec, state := t.run.Metrics[metric].Metric, t.states[metric]
		at := analysis.NextDue(state, spec, t.scheduleSeed(t.run.Metrics[metric]), state.LastAt)
		t.countMeasurement(metric, analysis.Measurement{At: at, Outcome: o, Message: "Measured " + string(o) + "."}, "", at)
	}
	return t
}

// isShown copies the shown verdict into the status.
func (t *task) isShown(now time.Time) *task {
	shown, _ := t.nextStatus(now)
	t.run.Record, t.sumsLost, t.counted = &shown, false, nil
	return t
}
