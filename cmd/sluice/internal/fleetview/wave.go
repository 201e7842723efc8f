package fleetview

import (
	"cmp"
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// waveRuns reports whether the release is in a wave that has not ended.
func (d *drawing) waveRuns(wave int) bool {
	s := d.Rollout.Status
	return s.Verb == api.FleetVerbRelease && wave == int(s.Wave) && wave <= len(s.Waves) && !WaveEnded(s.Waves[wave-1].Stage)
}

// WaveEnded reports whether the next wave may begin.
func WaveEnded(stage api.FleetWaveStage) bool {
	return stage == api.FleetWavePassed || stage == api.FleetWaveSkipped
}

func (d *drawing) drawWaves() {
	waves := d.strategyOf().Waves
	if len(waves) == 0 {
		d.drawWait("")
		return
	}
	d.addSection("Waves")
	width := 0
	for _, w := range waves {
		width = max(width, len(w.Name))
	}
	status, drawn := d.Rollout.Status, false
	for i, w := range waves {
		mark, note := " ", ""
		switch begun := i < len(status.Waves); {
		case d.waveRuns(i + 1):
			mark, note = d.ink.Cyan(d.marks.Here), d.ink.Cyan("  <- you are here")
		case begun && status.Waves[i].Stage == api.FleetWavePassed:
			mark = d.ink.Green(d.marks.Done)
		case begun && status.Waves[i].Stage == api.FleetWaveSkipped:
			mark, note = d.ink.Yellow(d.marks.Failed), d.ink.Yellow("  <- passed over")
		case begun:
			mark, note = d.ink.Red(d.marks.Failed), d.ink.Red("  <- stopped here")
		}
		d.addLine("%s %2d  %-*s  %s%s", mark, i+1, width, w.Name, WaveText(w), note)
		if i < len(status.Waves) {
			d.drawWave(i, w)
		}
		if d.waveRuns(i + 1) {
			drawn = true
			d.drawWait(indent)
		}
	}
	if !drawn {
		d.drawWait("")
	}
}

// drawWave draws the clusters of a wave that has begun. Of a wave that has ended it draws those that have more to do.
func (d *drawing) drawWave(i int, plan api.FleetWave) {
	var all, shown []fleet.ReleaseCluster
	ended := WaveEnded(d.Rollout.Status.Waves[i].Stage)
	for _, c := range d.clusters {
		if int(c.Wave) != i+1 {
			continue
		}
		all = append(all, c)
		if !ended || !c.Ended() {
			shown = append(shown, c)
		}
	}
	w := d.Rollout.Status.Waves[i]
	counts := cmp.Or(countText(countPhases(all)), "it has no cluster")
	if ended {
		d.addLine(indent+"%s", counts)
	} else {
		d.addLine(indent+"%s for %s: %s", stageText(w.Stage, plan), age(d.Now, w.Since.Time), counts)
	}
	d.drawClusters(shown, plan)
}

// stageText describes the stage of a wave.
func stageText(stage api.FleetWaveStage, plan api.FleetWave) string {
	step := int32(0)
	if plan.HoldAt != nil {
		step = plan.HoldAt.Step
	}
	switch stage {
	case api.FleetWaveToHold:
		return fmt.Sprintf("goes to step %d", step)
	case api.FleetWaveHoldSoak:
		return fmt.Sprintf("soaks at step %d", step)
	case api.FleetWaveHoldPause:
		return fmt.Sprintf("pauses at step %d", step)
	case api.FleetWaveGoing:
		return "under way"
	case api.FleetWavePause:
		return "pauses at its end"
	}
	return string(stage)
}

func (d *drawing) drawClusters(list []fleet.ReleaseCluster, plan api.FleetWave) {
	if len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	if len(list) > d.MaxClusters {
		slices.SortStableFunc(list, func(a, b fleet.ReleaseCluster) int { return urgency(a) - urgency(b) })
	}
	rest := list[min(len(list), d.MaxClusters):]
	list = list[:len(list)-len(rest)]
	width := 0
	for _, c := range list {
		width = max(width, len(c.Name))
	}
	for i, c := range list {
		branch := d.marks.Branch
		if i == len(list)-1 && len(rest) == 0 {
			branch = d.marks.Last
		}
		d.addLine(indent+"%s %-*s  %s", branch, width, c.Name, d.clusterText(c, plan))
	}
	if len(rest) > 0 {
		d.addLine(indent+"%s and %d others: %s", d.marks.Last, len(rest), countText(countPhases(rest)))
	}
}

func (d *drawing) clusterText(c fleet.ReleaseCluster, plan api.FleetWave) string {
	text := d.paintPhase(c.Phase)
	if c.Since != nil {
		text += " for " + age(d.Now, c.Since.Time)
	}
	if c.Phase == api.FleetTargetSoaking && plan.Soak != nil {
		text += " of " + shortDuration(plan.Soak.Duration)
	}
	if c.Step > 0 {
		text += fmt.Sprintf(", at step %d", c.Step)
	}
	if c.Reason != "" && c.Reason != string(c.Phase) && c.Reason != "Eligible" {
		text += ", " + c.Reason
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func (d *drawing) paintPhase(phase api.FleetTargetPhase) string {
	switch phase {
	case api.FleetTargetCompleted:
		return d.ink.Green(string(phase))
	case api.FleetTargetFailed, api.FleetTargetDiverged, api.FleetTargetNoWayBack, api.FleetTargetUnpermitted, api.FleetTargetUnknown:
		return d.ink.Red(string(phase))
	case api.FleetTargetDeferred, api.FleetTargetAwaitingDelivery:
		return d.ink.Yellow(string(phase))
	case api.FleetTargetProgressing, api.FleetTargetPermitted, api.FleetTargetAtHold, api.FleetTargetSoaking:
		return d.ink.Cyan(string(phase))
	}
	return string(phase)
}

// drawWait shows what the release waits for, and the commands to type.
func (d *drawing) drawWait(indent string) {
	hints := d.NextCommands(d.Rollout)
	if len(hints) > 0 && indent == "" {
		d.addLine("")
	}
	for _, h := range hints {
		d.addLine(indent+"%s, type:", h.Does)
		d.addLine(indent+"  %s", d.ink.Bold(h.Command))
	}
}

// drawOthers shows the clusters that no wave has drawn and that have had a permit, and counts those without one.
func (d *drawing) drawOthers() {
	var with []fleet.ReleaseCluster
	without := 0
	for _, c := range d.clusters {
		switch {
		case c.Wave > 0:
		case c.Permitted:
			with = append(with, c)
		default:
			without++
		}
	}
	if len(with)+without == 0 {
		return
	}
	d.addSection("In no wave yet")
	d.drawClusters(with, api.FleetWave{})
	if without > 0 {
		d.addLine(indent+"%s without a permit; a forecast of the waves: %s", clustersText(without), d.FleetCommand("plan", d.Rollout))
	}
}
