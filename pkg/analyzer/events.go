package analyzer

import (
	"math"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/kube"
)

// eventAnalysis describes the analysis run of an event.
func (a *Analyzer) eventAnalysis(v *kube.AnalysisView, t *task) event.Analysis {
	r, run := v.Rollout, t.run.Record
	about := event.Analysis{
		Cluster: a.ClusterName, Namespace: r.Namespace, Name: r.Name, UID: string(r.UID),
		Release: &event.Release{Epoch: run.Epoch}, Scope: string(t.run.Scope), PauseSeq: run.PauseSeq, DryRun: t.run.DryRun,
	}
	if m := r.Status.Sluice; m != nil {
		about.Release.RolloutID, about.Release.StableRevision, about.Release.CanaryRevision = m.RolloutID, m.StableRevision, m.CanaryRevision
	}
	about.Step = &event.Step{Index: max(1, run.Step), Of: int32(len(v.Spec.Steps)), Weight: event.TrafficWeight(r.Status.Sluice.GetTraffic())}
	if i := int(run.Step) - 1; i >= 0 && i < len(v.Spec.Steps) {
		want := v.Spec.Steps[i]
		about.Step.Replicas, about.Step.Matches = want.Replicas.String(), len(want.Matches) > 0
	}
	return about
}

// measuredEvent reports a measurement as it counted.
func (a *Analyzer) measuredEvent(v *kube.AnalysisView, t *task, c countedMeasurement) (event.Event, error) {
	m, got := c.metric, c.verdict.Measured
	data := event.Measured{
		Analysis: a.eventAnalysis(v, t), Template: m.Template, Metric: m.Name, Address: m.Address, Queries: event.Queries(m.Queries()),
		Window: event.WindowOf(got.At, m.Window), Outcome: string(got.Outcome), Phase: string(c.verdict.Phase), Reason: c.reason, Message: got.Message,
	}
	data.DryRun = data.DryRun || m.DryRun
	if got.Value != nil && isFinite(*got.Value) {
		data.Value = got.Value
	}
	for _, value := range got.Values {
		if isFinite(value) {
			data.Values = append(data.Values, value)
		}
	}
	if got.Counts != nil && isFinite(got.Counts.CanaryTotal+got.Counts.StableTotal+got.Counts.CanaryBad+got.Counts.StableBad) {
		counts := event.Counts(*got.Counts)
		data.Counts = &counts
	}
	switch got.Outcome {
	case analysis.OutcomeNoData:
		data.Policy = string(m.NoData.Action)
	case analysis.OutcomeError:
		data.Policy = string(m.Error.Action)
	}
	return event.NewMeasured(data, m.Digest, got.At)
}

// isFinite reports whether JSON can encode v.
func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// verdictEvent reports the verdict that the analyzer is about to write into the status.
func (a *Analyzer) verdictEvent(v *kube.AnalysisView, t *task, shown api.AnalysisRun) (event.Event, error) {
	data := event.Verdict{Analysis: a.eventAnalysis(v, t), From: string(t.run.Record.Phase), To: string(shown.Phase), Message: shown.Message, Metrics: []event.VerdictMetric{}}
	var newest time.Time
	for _, m := range shown.Metrics {
		data.Metrics = append(data.Metrics, event.VerdictMetric{
			Template: m.Template, Name: m.Name, Phase: string(m.Phase), Passed: m.Passed, Failed: m.Failed, Inconclusive: m.Inconclusive,
			NoData: m.NoData, Errors: m.Errors, LastValue: m.LastValue, DryRun: m.DryRun, Message: m.Message,
		})
		if m.LastTime != nil && m.LastTime.After(newest) {
			newest = m.LastTime.Time
		}
	}
	return event.NewVerdict(data, t.metricsDigest(), newest, a.Clock())
}
