// Package report describes the metrics of a release: the verdict, its reason, and the measurements behind it. It sends no requests and decides nothing. Its one
// invariant: Render is a function of its arguments; it knows no clock, no terminal and no client.
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

// View holds all data of the report.
type View struct {
	Rollout *api.Rollout
	// Measured are measurements in any order. Render omits measurements of runs that are not in the status of the Rollout.
	Measured []event.Measured
	// Limits are the limits of the values, if they are known.
	Limits map[Key][]chart.Limit
	// Note explains why measurements are missing.
	Note string
}

// RunOf returns the run of a scope in the status, nil for none.
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

// Render writes the view. Lines have no line ends.
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

// withMeasured takes the counts and the last value from the measurements, if they are ahead of the status. The analyzer updates the status only when a verdict
// changes.
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

// pointsOf returns the measurements of one run by metric, each once and in order of time.
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

// belongsTo reports whether a measurement belongs to a run.
func (v View) belongsTo(m event.Measured, scope string, run *api.AnalysisRun) bool {
	return run != nil && m.UID == string(v.Rollout.UID) && m.Scope == scope && m.Release != nil && m.Release.Epoch == run.Epoch && m.PauseSeq == run.PauseSeq
}

// RunMeasurements returns the measurements of the runs in the status of the Rollout.
func (v View) RunMeasurements() []event.Measured {
	list := []event.Measured{}
	for _, m := range v.Measured {
		if v.belongsTo(m, ScopeStep, RunOf(v.Rollout, ScopeStep)) || v.belongsTo(m, ScopeRelease, RunOf(v.Rollout, ScopeRelease)) {
			list = append(list, m)
		}
	}
	return list
}

// valueOf returns the value of a measurement. If the analyzer judged several values separately, it returns the first one.
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

// clockTime formats a time of day in UTC, as kubectl does.
func clockTime(t *metav1.MicroTime) string { return t.UTC().Format("15:04:05") }
