package analyzer

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

// renewal is the longest time between two writes of a run without news. Executors treat a run twice as old as a run that no analyzer measures.
const renewal = 5 * time.Minute

// renewalInterval returns the renewal interval of this run. A metric that is measured once a day needs no write every five minutes.
func (t *task) renewalInterval() time.Duration {
	span := renewal
	for _, m := range t.run.Metrics {
		span = max(span, 2*m.Interval)
	}
	return span
}

// renewAt returns the time at which the analyzer writes the run again without news.
func (t *task) renewAt() time.Time {
	if t.run.Record.RenewBy == nil {
		return time.Time{}
	}
	return t.run.Record.RenewBy.Add(-t.renewalInterval())
}

// nextStatus returns the status of the run, and whether it is worth a write. Without that limit, thousands of runs that measure twice a minute would cause
// hundreds of writes a second.
func (t *task) nextStatus(now time.Time) (shown api.AnalysisRun, worth bool) {
	before := t.run.Record
	shown = *before.DeepCopy()
	if t.run.Problem != "" {
		shown.Phase, shown.Message = api.AnalysisWaiting, t.run.Problem
	} else {
		gate, decisive := t.combinedGate()
		shown.Phase, shown.Message, shown.Metrics = gate.Phase(), t.gateMessage(gate, decisive), nil
		for i, m := range t.run.Metrics {
			status := t.states[i].Status(m.Metric)
			status.Template = m.Template
			shown.Metrics = append(shown.Metrics, status)
		}
		if t.isOver() && shown.EndedAt == nil {
			at := metav1.NewMicroTime(now)
			shown.EndedAt = &at
		}
	}
	worth = t.sumsLost || phasesDiffer(*before, shown) || metricsDiffer(*before, shown) || (shown.EndedAt == nil) != (before.EndedAt == nil) ||
		before.RenewBy == nil || !now.Before(t.renewAt())
	renew := metav1.NewMicroTime(now.Add(2 * t.renewalInterval()))
	shown.RenewBy = &renew
	return shown, worth
}

// gateMessage explains the combined verdict of all metrics.
func (t *task) gateMessage(gate analysis.Gate, decisive int) string {
	if t.sumsLost && len(t.counted) == 0 {
		return "The earlier measurements are lost. The analysis has begun again, and the release waits for it."
	}
	if decisive < 0 {
		return "Nothing that was measured speaks against going on."
	}
	m := t.run.Metrics[decisive]
	message := fmt.Sprintf("Metric %s of %s: %s", m.Name, m.Template, t.states[decisive].Message)
	if gate == analysis.GatePassed && len(t.run.Metrics) > 1 {
		return "All metrics that decide have passed. " + message
	}
	return message
}

// phasesDiffer reports whether the verdict of the run or of a metric has changed. The first phase of a new metric counts as a change unless it is Running.
func phasesDiffer(before, after api.AnalysisRun) bool {
	if before.Phase != after.Phase {
		return true
	}
	known := map[string]api.MetricPhase{}
	for _, m := range before.Metrics {
		known[m.Template+"/"+m.Name] = m.Phase
	}
	for _, m := range after.Metrics {
		if phase, is := known[m.Template+"/"+m.Name]; is && phase != m.Phase || !is && m.Phase != api.MetricRunning {
			return true
		}
	}
	return false
}

// metricsDiffer reports whether the status has other metrics, a first measurement, or another reason to wait. Times and numbers in messages are not worth a
// write.
func metricsDiffer(before, after api.AnalysisRun) bool {
	if len(before.Metrics) != len(after.Metrics) {
		return true
	}
	for i, m := range after.Metrics {
		old := before.Metrics[i]
		if old.Template != m.Template || old.Name != m.Name || old.DryRun != m.DryRun || waitReason(old) != waitReason(m) || old.LastTime == nil && m.LastTime != nil {
			return true
		}
	}
	// Without metrics, the message of the run names the problem of a template.
	return len(after.Metrics) == 0 && before.Message != after.Message
}

// waitReason returns the beginning of the message of a metric that waits for data or for an answer.
func waitReason(m api.MetricStatus) string {
	if m.Phase != api.MetricWaiting {
		return ""
	}
	kind, _, _ := strings.Cut(m.Message, ",")
	return kind
}
