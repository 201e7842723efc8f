package fleetview

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

func (d *drawing) drawApprovals() {
	first := true
	for _, a := range d.Rollout.Status.Approvals {
		if a.Epoch < d.Rollout.Status.Began {
			continue
		}
		if first {
			d.addSection("Approvals")
			first = false
		}
		line := fmt.Sprintf("%s  wave %d  %s", clockTime(a.Time.Time), a.Wave, a.Decision)
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
	list := d.Rollout.Status.Transitions
	if len(list) == 0 {
		return
	}
	d.addSection("Last transitions")
	for _, t := range list {
		line := clockTime(t.Time.Time) + "  "
		if t.Wave > 0 {
			line += fmt.Sprintf("wave %d  ", t.Wave)
		}
		line += cmp.Or(t.Message, t.To)
		if t.Actor != "" && !strings.Contains(t.Message, t.Actor) {
			line += " (by " + t.Actor + ")"
		}
		d.addLine("%s", line)
	}
}

// clockTime formats a time of day in UTC.
func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") }
