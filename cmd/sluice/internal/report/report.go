// Package report writes down what metrics say about a release: the verdict, why, and the measurements behind it. It reads nothing and
// decides nothing. Its one invariant: Render is a function of its arguments; it knows no clock, no terminal and no client.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// Scopes of runs.
const (
	ScopeStep    = "step"
	ScopeRelease = "release"
)

// Key names a metric of a run.
type Key struct{ Scope, Template, Metric string }

// View is all that is written down.
type View struct {
	Rollout *api.Rollout
	// Measured are measurements, in any order; those of other runs than the Rollout's are left out.
	Measured []event.Measured
	// Limits are what values are compared with, as far as that is known.
	Limits map[Key][]chart.Limit
	// Note says why measurements are missing, if they are.
	Note string
}

// RunOf is the run of a scope in the status, nil for none.
func RunOf(r *api.Rollout, scope string) *api.AnalysisRun {
	all := r.Status.Analysis
	switch {
	case all == nil:
		return nil
	case scope == ScopeStep:
		return all.Step
	}
	return all.Release
}

// Render writes the view. Lines carry no line ends.
func Render(v View, s chart.Style) []string {
	w := &writing{View: v, style: s, ink: color.Ink{On: s.Color}}
	w.addLine("%-11s %s", "Rollout", w.ink.Bold(v.Rollout.Namespace+"/"+v.Rollout.Name))
	if v.Rollout.Status.Message != "" {
		w.addLine("%-11s %s", "Message", v.Rollout.Status.Message)
	}
	for _, scope := range []string{ScopeStep, ScopeRelease} {
		if run := RunOf(v.Rollout, scope); run != nil {
			w.writeRun(scope, run)
		}
	}
	if v.Note != "" {
		w.lines = append(w.lines, "", w.ink.Yellow("! "+v.Note))
	}
	return w.lines
}

type writing struct {
	View
	style chart.Style
	ink   color.Ink
	lines []string
}

func (w *writing) addLine(format string, args ...any) {
	w.lines = append(w.lines, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (w *writing) writeRun(scope string, run *api.AnalysisRun) {
	title := "Release"
	if scope == ScopeStep {
		title = fmt.Sprintf("Step %d", run.Step)
	}
	w.lines = append(w.lines, "")
	w.addLine("%-11s %s", w.ink.Bold(title)+strings.Repeat(" ", max(0, 11-len(title))), w.ink.PaintVerdict(string(run.Phase)))
	if run.Message != "" {
		w.addLine("  %s", run.Message)
	}
	if times := w.timesText(scope, run); times != "" {
		w.addLine("  %s", w.ink.Dim(times))
	}
	points := w.pointsOf(scope, run)
	for _, m := range run.Metrics {
		key := Key{scope, m.Template, m.Name}
		w.writeMetric(m, points[key], w.Limits[key])
		delete(points, key)
	}
	for _, key := range sortedKeys(points) {
		w.writeMetric(api.MetricStatus{Name: key.Metric, Template: key.Template, Phase: api.MetricRunning}, points[key], w.Limits[key])
	}
}

// withMeasured has the counts and the value of the measurements, if there are more of them than the status knows: that is written only
// when a verdict changes.
func withMeasured(m api.MetricStatus, points []chart.Point) api.MetricStatus {
	if len(points) <= int(m.Passed+m.Failed+m.Inconclusive+m.NoData+m.Errors) {
		return m
	}
	m.Passed, m.Failed, m.Inconclusive, m.NoData, m.Errors = 0, 0, 0, 0, 0
	for _, p := range points {
		switch p.Outcome {
		case analysis.OutcomePass:
			m.Passed++
		case analysis.OutcomeFail:
			m.Failed++
		case analysis.OutcomeInconclusive:
			m.Inconclusive++
		case analysis.OutcomeNoData:
			m.NoData++
		default:
			m.Errors++
		}
		if p.Value != nil {
			made := metav1.NewMicroTime(p.At)
			m.LastValue, m.LastTime = chart.FormatNumber(*p.Value), &made
		}
	}
	return m
}

func (w *writing) timesText(scope string, run *api.AnalysisRun) string {
	var parts []string
	if run.StartedAt != nil {
		parts = append(parts, "began "+clockTime(run.StartedAt))
	}
	if scope == ScopeRelease {
		parts = append(parts, fmt.Sprintf("at step %d now", run.Step))
	}
	if run.EndedAt != nil {
		parts = append(parts, "ended "+clockTime(run.EndedAt))
	}
	if m := w.Rollout.Status.Sluice; m != nil && m.Epoch != run.Epoch {
		parts = append(parts, "of an earlier release")
	}
	return strings.Join(parts, ", ")
}

func (w *writing) writeMetric(m api.MetricStatus, points []chart.Point, limits []chart.Limit) {
	note := ""
	if m.DryRun {
		note = ", decides nothing"
	}
	w.lines = append(w.lines, "")
	w.addLine("  %s  %s  %s", w.ink.Bold(m.Name), w.ink.PaintVerdict(string(m.Phase)), w.ink.Dim(m.Template+note))
	m = withMeasured(m, points)
	var facts []string
	if m.LastValue != "" {
		last := "last value " + m.LastValue
		if m.LastTime != nil {
			last += " at " + clockTime(m.LastTime)
		}
		facts = append(facts, last)
	}
	if counts := view.MetricCounts(m); counts != "" {
		facts = append(facts, counts)
	}
	if len(facts) > 0 {
		w.addLine("    %s", strings.Join(facts, "; "))
	}
	if m.Message != "" {
		w.addLine("    %s", m.Message)
	}
	style := w.style
	style.Width -= 4
	for _, line := range chart.DrawPoints(points, limits, style) {
		w.addLine("    %s", line)
	}
}

// pointsOf are the measurements of one run by metric, each once and in order of time.
func (w *writing) pointsOf(scope string, run *api.AnalysisRun) map[Key][]chart.Point {
	list := map[Key][]chart.Point{}
	for _, m := range w.Measured {
		if !w.belongsTo(m, scope, run) {
			continue
		}
		made, err := time.Parse(time.RFC3339Nano, m.Window.To)
		if err != nil {
			continue
		}
		key := Key{scope, m.Template, m.Metric}
		list[key] = append(list[key], chart.Point{At: made, Value: valueOf(m), Outcome: analysis.Outcome(m.Outcome)})
	}
	for key, points := range list {
		slices.SortStableFunc(points, func(a, b chart.Point) int { return a.At.Compare(b.At) })
		list[key] = slices.CompactFunc(points, func(a, b chart.Point) bool { return a.At.Equal(b.At) })
	}
	return list
}

// belongsTo reports whether a measurement is one of a run.
func (v View) belongsTo(m event.Measured, scope string, run *api.AnalysisRun) bool {
	return run != nil && m.UID == string(v.Rollout.UID) && m.Scope == scope && m.Release != nil && m.Release.Epoch == run.Epoch && m.PauseSeq == run.PauseSeq
}

// RunMeasurements are the measurements of the runs in the Rollout's status.
func (v View) RunMeasurements() []event.Measured {
	list := []event.Measured{}
	for _, m := range v.Measured {
		if v.belongsTo(m, ScopeStep, RunOf(v.Rollout, ScopeStep)) || v.belongsTo(m, ScopeRelease, RunOf(v.Rollout, ScopeRelease)) {
			list = append(list, m)
		}
	}
	return list
}

// valueOf is the one value of a measurement. Of several that were judged apart, the first stands for all.
func valueOf(m event.Measured) *float64 {
	if m.Value == nil && len(m.Values) > 0 {
		return &m.Values[0]
	}
	return m.Value
}

func sortedKeys(points map[Key][]chart.Point) []Key {
	var keys []Key
	for key := range points {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Template+"/"+a.Metric, b.Template+"/"+b.Metric) })
	return keys
}

// clockTime is a time of day, in UTC as kubectl shows times.
func clockTime(t *metav1.MicroTime) string { return t.UTC().Format("15:04:05") }
