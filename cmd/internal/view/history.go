package view

import (
	"fmt"
	"time"
)

const clock = "15:04:05"

func (d *drawing) drawApprovals() {
	s := d.Rollout.Status.Sluice
	if s == nil {
		return
	}
	first := true
	for _, a := range d.Rollout.Status.Approvals {
		if a.Epoch != s.Epoch {
			continue
		}
		if first {
			d.addSection("Approvals")
			first = false
		}
		line := fmt.Sprintf("%s  step %d  %s", clockTime(a.Time.Time), a.Step, a.Decision)
		if a.Forced {
			line += " against its metrics"
		}
		if a.Actor != "" {
			line += " by " + a.Actor
		}
		if a.Comment != "" {
			line += ": " + a.Comment
		}
		d.addLine("%s", line)
	}
}

func (d *drawing) drawTransitions() {
	s := d.Rollout.Status.Sluice
	if s == nil || len(s.Transitions) == 0 {
		return
	}
	d.addSection("Last transitions")
	for _, t := range s.Transitions {
		line := fmt.Sprintf("%s  %s", clockTime(t.Time.Time), t.To)
		if t.Step > 0 {
			line += fmt.Sprintf(" %d", t.Step)
		}
		if t.Message != "" {
			line += ": " + t.Message
		}
		if t.Actor != "" {
			line += " (by " + t.Actor + ")"
		}
		d.addLine("%s", line)
	}
}

// clockTime formats a time of day in UTC, as kubectl does.
func clockTime(t time.Time) string { return t.UTC().Format(clock) }
