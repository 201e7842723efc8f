package view

import (
	"fmt"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// drawFleet shows the FleetRollout of a hub that governs the Rollout, what its last permit allows, and since when the release waits for the hub.
func (d *drawing) drawFleet() {
	f := d.Rollout.Status.Fleet
	if f == nil {
		return
	}
	governor := "FleetRollout " + f.FleetRollout.String() + " of the hub"
	if d.Rollout.Spec.Fleet == nil {
		governor += d.ink.Yellow(", which spec.fleet does not name any more")
	}
	d.addField("Fleet", "%s", governor)
	d.addField("Permit", "%s", d.permitText(f))
	if o := f.Override; o != nil && d.Rollout.Status.Sluice != nil && o.Release == d.Rollout.Status.Sluice.Epoch {
		d.addField("Overridden", "%s", d.ink.Yellow("this release goes on without permits: "+strings.Trim(o.Actor+": "+o.Reason, ": ")))
	}
	if f.Unpermitted != "" {
		d.addField("Unpermitted", "%s", d.ink.Yellow("the present version runs without a permit ("+f.Unpermitted+")"))
	}
	if waits := d.fleetWait(f); waits != "" {
		d.addField("Waits", "%s", d.ink.Yellow(waits))
	}
}

// permitText describes what the last permit allows.
func (d *drawing) permitText(f *api.RolloutFleetStatus) string {
	permit := f.Permit
	if permit == nil {
		return "none yet: a change of the pod template is held"
	}
	version := strings.TrimPrefix(permit.Version, "version/")
	text := ""
	switch permit.Verb {
	case api.FleetVerbRelease:
		text = "release " + version
		if permit.HoldAt > 0 {
			text += fmt.Sprintf(" up to step %d", permit.HoldAt)
		} else {
			text += " to its end"
		}
	case api.FleetVerbHold:
		text = "hold the release of " + version + " at its step"
		if version == "" { // the order holds every release of the Rollout
			text = "hold each release at its step"
		}
	case api.FleetVerbAbort:
		text = "go back from the release under way"
	case api.FleetVerbWithdraw:
		text = "go back from " + version + ", which is withdrawn"
	default:
		text = string(permit.Verb)
	}
	if permit.Wave != "" {
		text += ", in wave " + permit.Wave
	}
	if permit.NotAfter != nil && !permit.NotAfter.IsZero() && (permit.Verb == api.FleetVerbRelease || permit.Verb == api.FleetVerbHold) {
		text += ", until " + permit.NotAfter.UTC().Format(time.RFC3339)
		if d.Now.After(permit.NotAfter.Time) {
			text += d.ink.Red(" (over)")
		}
	}
	if used, s := f.Used, d.Rollout.Status.Sluice; permit.Verb == api.FleetVerbRelease && used != nil && used.Number() == permit.Number() && s != nil && s.Epoch != used.Release {
		text += ", used up" // by an earlier release
	}
	if permit.NoTraffic {
		text += ", without analyses, because the cluster has no users"
	}
	if len(permit.SkipAnalyses) > 0 {
		text += ", without the analyses of " + strings.Join(permit.SkipAnalyses, ", ")
	}
	return text + d.ink.Dim(fmt.Sprintf("  (epoch %d, number %d)", permit.Epoch, permit.Seq))
}

// fleetWait says since when the release waits for the hub, and why; "" if it does not wait for it. Messages about such waits name the FleetRollout, or a
// command to type at the hub.
func (d *drawing) fleetWait(f *api.RolloutFleetStatus) string {
	status := d.Rollout.Status
	message := status.Message
	if common := commonStatus(d.Rollout).Message; common != "" {
		message = common
	}
	if status.Phase != api.PhaseProgressing || !strings.Contains(message, "FleetRollout "+f.FleetRollout.String()) && !strings.Contains(message, "type at the hub: ") {
		return ""
	}
	text := "for the hub"
	if s := status.Sluice; s != nil && s.Since != nil {
		text += ", for " + d.ageText(s.Since.Time)
	}
	if message != status.Message { // which the head shows
		text += ": " + message
	}
	return text
}
