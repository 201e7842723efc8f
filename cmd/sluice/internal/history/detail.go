package history

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
)

// Release is one release in detail. Lines carry no line ends.
func Release(r *api.RolloutHistory, revisions []revision.Revision, now time.Time) []string {
	s := r.Status
	var d lines
	d.field("Release", "%d of Rollout %s/%s", s.Epoch, r.Namespace, r.Labels[api.LabelRolloutName])
	outcome := Outcome(r)
	if s.Message != "" {
		outcome += ": " + s.Message
	}
	d.field("Outcome", "%s", outcome)
	d.field("Style", "%s", s.Style)
	d.field("Rollout id", "%s", r.Spec.Rollout.RolloutID)
	d.field("Started", "%s", at(s.StartedAt))
	d.field("Ended", "%s", at(s.EndedAt))
	d.field("Took", "%s", took(s.StartedAt, s.EndedAt, now))
	d.field("Stable", "%s", described(s.StableRevision, revisions))
	d.field("New", "%s", described(s.CanaryRevision, revisions))
	d.field("Images", "%s", strings.Join(s.Images, "\n"))
	if len(s.Steps) > 0 {
		d.add("Steps")
	}
	for _, step := range s.Steps {
		d.add("%s", stepLine(step, now))
	}
	return d
}

func stepLine(s api.HistoryStep, now time.Time) string {
	parts := []string{fmt.Sprintf("%4d  %s  %-4s", s.Step, at(s.StartedAt), took(s.StartedAt, s.EndedAt, now))}
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

func described(id string, revisions []revision.Revision) string {
	if r := known(id, revisions); r != nil {
		return fmt.Sprintf("%s, revision %d of the workload", id, r.Number)
	}
	return id
}

// Revision is one revision of a workload in detail, with the releases that brought it. Lines carry no line ends.
func Revision(r revision.Revision, w revision.Workload, stable string, records []*api.RolloutHistory) ([]string, error) {
	var d lines
	d.field("Revision", "%d of %s %s/%s", r.Number, w.Object.GetKind(), w.Object.GetNamespace(), w.Object.GetName())
	d.field("Note", "%s", Note(r, w, stable))
	d.field("Created", "%s", r.Created.UTC().Format(time.RFC3339))
	d.field("Cause", "%s", r.Cause)
	var releases []string
	for _, record := range records {
		if r.Is(record.Status.CanaryRevision) {
			releases = append(releases, fmt.Sprintf("%d (%s)", record.Status.Epoch, Outcome(record)))
		}
	}
	d.field("Releases", "%s", strings.Join(releases, ", "))
	text, err := yaml.Marshal(r.Template)
	if err != nil {
		return nil, fmt.Errorf("write yaml: %w", err)
	}
	d.add("Pod template")
	for line := range strings.Lines(string(text)) {
		d.add("  %s", strings.TrimRight(line, "\n"))
	}
	return d, nil
}

type lines []string

func (l *lines) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

// field adds a named value, of as many lines as it has; nothing for an empty one.
func (l *lines) field(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		l.add("%-11s %s", name, line)
		name = ""
	}
}
