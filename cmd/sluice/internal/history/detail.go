package history

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
)

// ReleaseDetail describes one release in detail. Lines have no line ends.
func ReleaseDetail(r *api.RolloutHistory, revisions []revision.Revision, now time.Time) []string {
	s := r.Status
	var d lines
	d.addField("Release", "%d of Rollout %s/%s", s.Epoch, r.Namespace, r.Labels[api.LabelRolloutName])
	outcome := OutcomeText(r)
	if s.Message != "" {
		outcome += ": " + s.Message
	}
	d.addField("Outcome", "%s", outcome)
	d.addField("Style", "%s", s.Style)
	d.addField("Rollout id", "%s", r.Spec.Rollout.RolloutID)
	d.addField("Started", "%s", timeText(s.StartedAt))
	d.addField("Ended", "%s", timeText(s.EndedAt))
	d.addField("Took", "%s", durationText(s.StartedAt, s.EndedAt, now))
	d.addField("Stable", "%s", describeRevision(s.StableRevision, revisions))
	d.addField("New", "%s", describeRevision(s.CanaryRevision, revisions))
	d.addField("Images", "%s", strings.Join(s.Images, "\n"))
	if len(s.Steps) > 0 {
		d.addLine("Steps")
	}
	for _, step := range s.Steps {
		d.addLine("%s", stepLine(step, now))
	}
	return d
}

func stepLine(s api.HistoryStep, now time.Time) string {
	parts := []string{fmt.Sprintf("%4d  %s  %-4s", s.Step, timeText(s.StartedAt), durationText(s.StartedAt, s.EndedAt, now))}
	if s.Verdict != "" {
		parts = append(parts, "metrics: "+string(s.Verdict))
	}
	if s.ApprovedBy != "" {
		parts = append(parts, "approved by "+s.ApprovedBy)
	}
	line := strings.TrimRight(strings.Join(parts, "  "), " ")
	if s.Comment != "" {
		line += ": " + strings.Join(strings.Fields(s.Comment), " ")
	}
	return line
}

func describeRevision(id string, revisions []revision.Revision) string {
	if r := findRevision(id, revisions); r != nil {
		return fmt.Sprintf("%s, revision %d of the workload", id, r.Number)
	}
	return id
}

// RevisionDetail describes one revision of a workload in detail, with its releases. Lines have no line ends.
func RevisionDetail(r revision.Revision, w revision.Workload, stable string, records []*api.RolloutHistory) ([]string, error) {
	var d lines
	d.addField("Revision", "%d of %s %s/%s", r.Number, w.Object.GetKind(), w.Object.GetNamespace(), w.Object.GetName())
	d.addField("Note", "%s", RevisionNote(r, w, stable))
	d.addField("Created", "%s", r.Created.UTC().Format(time.RFC3339))
	d.addField("Cause", "%s", r.Cause)
	var releases []string
	for _, record := range records {
		if r.Is(record.Status.CanaryRevision) {
			releases = append(releases, fmt.Sprintf("%d (%s)", record.Status.Epoch, OutcomeText(record)))
		}
	}
	d.addField("Releases", "%s", strings.Join(releases, ", "))
	text, err := yaml.Marshal(r.Template)
	if err != nil {
		return nil, fmt.Errorf("write yaml: %w", err)
	}
	d.addLine("Pod template")
	for line := range strings.Lines(string(text)) {
		d.addLine("  %s", strings.TrimRight(line, "\n"))
	}
	return d, nil
}

type lines []string

func (l *lines) addLine(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

// addField adds a named value with one or more lines, and nothing for an empty value.
func (l *lines) addField(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		l.addLine("%-11s %s", name, line)
		name = ""
	}
}
