package view

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// drawAnalysis shows the verdicts of metrics about the current release.
func (d *drawing) drawAnalysis() {
	status := d.Rollout.Status
	if status.Analysis == nil || status.Sluice == nil {
		return
	}
	first := true
	for _, run := range []struct {
		of string
		*api.AnalysisRun
	}{{"step", status.Analysis.Step}, {"release", status.Analysis.Release}} {
		if run.AnalysisRun == nil || run.Epoch != status.Sluice.Epoch {
			continue
		}
		if first {
			d.addSection("Analysis")
			first = false
		}
		of := run.of
		if of == "step" {
			of = fmt.Sprintf("step %d", run.Step)
		}
		d.addLine("%-8s %s  %s", of, d.ink.PaintVerdict(string(run.Phase)), run.Message)
		for _, m := range run.Metrics {
			d.addLine("  %s", d.metricText(m))
		}
	}
}

func (d *drawing) metricText(m api.MetricStatus) string {
	parts := []string{m.Name, d.ink.PaintVerdict(string(m.Phase))}
	if m.LastValue != "" {
		parts = append(parts, m.LastValue)
	}
	if counts := MetricCounts(m); counts != "" {
		parts = append(parts, d.ink.Dim("("+counts+")"))
	}
	if m.DryRun {
		parts = append(parts, d.ink.Dim("decides nothing"))
	}
	return strings.Join(parts, "  ")
}

// MetricCounts returns the number of measurements of a metric by outcome; empty without measurements.
func MetricCounts(m api.MetricStatus) string {
	var parts []string
	for _, c := range []struct {
		n    int32
		what string
	}{{m.Passed, "passed"}, {m.Failed, "failed"}, {m.Inconclusive, "inconclusive"}, {m.NoData, "without data"}, {m.Errors, "went wrong"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// isAborted reports whether the release was aborted and the executor still holds its changes.
func (d *drawing) isAborted() bool {
	return rollout.State(d.Rollout.Status.Sluice.GetState()) == rollout.StateAborted
}

// drawAborted shows the commands for an aborted release.
func (d *drawing) drawAborted() {
	const indent = "       "
	state := "Aborted"
	s := d.Rollout.Status.Sluice
	if s.Since != nil {
		state += " for " + d.ageText(s.Since.Time)
	}
	for _, c := range d.Rollout.Status.Conditions {
		if c.Type == api.ConditionProgressing && strings.Contains(c.Message, rollout.TrafficStable) {
			state += ", all traffic is on the stable version"
		}
	}
	d.addLine(indent+"%s", state)
	if s.FinaliseReason == api.FinaliseRollback {
		d.addLine(indent + "the workload gets its stable version back")
		return
	}
	d.addLine(indent + "waits for another version, or a rollback of the workload; to try this one again, type:")
	d.addLine(indent+"  %s", d.ink.Bold(d.commandText("retry", "")))
}
