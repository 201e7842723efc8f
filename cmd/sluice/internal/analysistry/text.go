package analysistry

import (
	"fmt"
	"sluice.dev/sluice/cmd/internal/color"
	"strings"
)

// Text returns the report as lines for people.
func (r Report) Text(i color.Ink) []string {
	lines := []string{i.Bold(r.Template)}
	for _, a := range r.Arguments {
		note := ""
		switch a.From {
		case Assumed:
			note = "  (assumed; a Rollout gives it, here --arg " + a.Name + "=VALUE does)"
		case FromTemplate:
			note = "  (the template's)"
		}
		lines = append(lines, fmt.Sprintf("  %s = %s%s", a.Name, a.Value, i.Dim(note)))
	}
	for _, w := range r.Warnings {
		lines = append(lines, "  "+i.Yellow("warning: "+w))
	}
	for _, m := range r.Metrics {
		lines = append(append(lines, ""), m.textLines(i)...)
	}
	return lines
}

func (m Metric) textLines(i color.Ink) []string {
	paint := i.Yellow
	switch m.Outcome {
	case "pass":
		paint = i.Green
	case "fail":
		paint = i.Red
	}
	lines := []string{i.Bold(m.Name) + "  " + paint(string(m.Outcome)), "  " + m.Message}
	field := func(name, text string) {
		for n, line := range strings.Split(text, "\n") {
			if n > 0 {
				name = ""
			}
			lines = append(lines, fmt.Sprintf("  %-12s %s", name, strings.TrimRight(line, " ")))
		}
	}
	field("asked", m.Address)
	for _, q := range m.Queries {
		field(q.Name, q.Text)
		switch {
		case q.Error != "":
			field("", "-> "+q.Error)
		case q.Count == 0:
			field("", "-> no series")
		}
		for _, s := range q.Series {
			field("", "-> "+s.String())
		}
		if more := q.Count - len(q.Series); more > 0 {
			field("", fmt.Sprintf("-> and %d more series", more))
		}
		for _, remark := range q.Remarks {
			field("", "Prometheus remarks: "+remark)
		}
	}
	if m.Past != "" {
		field("past", m.Past)
	}
	field("judged by", m.Rule)
	field("in a release", m.Run)
	for _, w := range m.Warnings {
		lines = append(lines, "  "+i.Yellow("warning: "+w))
	}
	return lines
}
