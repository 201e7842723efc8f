package main

import (
	"fmt"
	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/simulate"
	"strings"
)

// planText returns the report of a plan as lines for people.
func planText(r *simulate.Report, in color.Ink) []string {
	lines := []string{in.Bold(fmt.Sprintf("Rollout %s/%s of %s, %s", r.Namespace, r.Rollout, r.Workload, r.DescribeVersion()))}
	for _, p := range r.Phases {
		lines = append(lines, "")
		lines = append(lines, phaseText(p, in)...)
	}
	lines = append(lines, "")
	for _, w := range r.Warnings {
		lines = append(lines, in.Yellow("warning ")+" "+w)
	}
	if len(r.Refusals) == 0 {
		return append(lines, in.Green("The plan can be carried out. Nothing was touched."))
	}
	for _, refusal := range r.Refusals {
		lines = append(lines, in.Red("refused ")+" "+refusal.String())
	}
	return append(lines, in.Red("The release would be held there. Nothing was touched."))
}

func phaseText(p simulate.Phase, in color.Ink) []string {
	title := p.Name
	if p.Asks != "" {
		title += ": " + p.Asks
	}
	lines := []string{in.Bold("== " + title)}
	for _, e := range p.Events {
		if e.Does != "" {
			lines = append(lines, in.Green("does  ")+"  "+e.Does)
		} else {
			lines = append(lines, in.Yellow("waits ")+"  "+e.Waits)
		}
	}
	if p.Result != nil {
		lines = append(lines, in.Green("result")+"  "+p.Result.String())
	}
	for _, c := range p.Changes {
		lines = append(lines, fmt.Sprintf("%s %s", in.Cyan(fmt.Sprintf("%-7s", c.Change)), c.Object))
		if c.Change == "deleted" {
			continue // its original value has been shown
		}
		for _, d := range color.PaintDiff(c.Diff, in) {
			lines = append(lines, "    "+d)
		}
	}
	if len(p.Unchanged) > 0 {
		lines = append(lines, in.Dim("unchanged: "+strings.Join(p.Unchanged, ", ")))
	}
	return lines
}
