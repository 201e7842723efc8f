package fleetview

import (
	"cmp"
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

const indent = "       "

// Render draws a FleetRollout with its waves and clusters. Lines have no line ends.
func Render(v View, s Style) []string {
	d := newDrawing(v, s)
	d.drawHead()
	d.drawWaves()
	d.drawOthers()
	d.drawAttention()
	d.drawApprovals()
	d.drawTransitions()
	for _, text := range v.Unread {
		d.addLine("%s", d.ink.Yellow("! "+text))
	}
	return d.lines
}

func (d *drawing) drawHead() {
	r, status := d.Rollout, d.Rollout.Status
	d.addField("FleetRollout", "%s", d.ink.Bold(r.Namespace+"/"+r.Name))
	d.addField("Phase", "%s", d.phaseText())
	if status.Message != "" {
		d.addField("Message", "%s", status.Message)
	}
	if status.Release != nil {
		d.addField("Version", "%s", fleet.ReleaseText(status.Release))
		if status.Release.Version != "" && len(status.Release.Images) > 0 {
			d.addField("Images", "%s", fleet.ImagesText(status.Release.Images))
		}
	}
	if next := r.Spec.Release; next != nil && (status.Release == nil || !SameRelease(next, status.Release)) {
		d.addField("Next", "%s", d.ink.Cyan(fleet.ReleaseText(next)+", which the hub has not begun"))
	}
	d.addField("Plan", "%s, delivery %s", cmp.Or(r.Spec.Plan, "in the FleetRollout itself"), cmp.Or(r.Spec.Delivery, api.FleetDeliveryExternal))
	if n := int32(len(d.clusters)); n > 0 {
		d.addField("Clusters", "%d: %s", n, countText(countPhases(d.clusters)))
	}
	if blocked := blockedText(status.Blocked); blocked != "" {
		d.addField("Blocked", "%s", d.ink.Yellow(blocked))
	}
	if c := status.Command; c != nil {
		d.addField("Command", "%s", d.ink.Yellow(fmt.Sprintf("%s by %s, which the hub has not taken yet", c.Action, c.Actor)))
	}
}

func blockedText(blocks []api.FleetBlock) string {
	var list []string
	for _, b := range blocks {
		if !b.Unblocked {
			list = append(list, fleet.KeyText(b.Version))
		}
	}
	return strings.Join(list, ", ")
}

// SameRelease reports whether two releases name the same version and images.
func SameRelease(a, b *api.FleetRelease) bool {
	return a.Version == b.Version && api.FleetImagesDigest(a.Images) == api.FleetImagesDigest(b.Images)
}

func (d *drawing) phaseText() string {
	status := d.Rollout.Status
	text := string(status.Phase)
	if status.Reason != "" && status.Reason != text {
		text += " (" + status.Reason + ")"
	}
	switch status.Phase {
	case "":
		return d.ink.Yellow("not looked at yet: no executor of a hub has seen this FleetRollout (" + d.Command + " check tells why)")
	case api.FleetPhaseSucceeded, api.FleetPhaseIdle:
		return d.ink.Green(text)
	case api.FleetPhaseProgressing, api.FleetPhaseSoaking:
		return d.ink.Cyan(text)
	case api.FleetPhaseStalled, api.FleetPhaseWithdrawing, api.FleetPhaseWithdrawn, api.FleetPhaseAborted:
		return d.ink.Red(text)
	}
	return d.ink.Yellow(text)
}

func (d *drawing) drawAttention() {
	first := true
	for _, a := range d.Rollout.Status.Attention {
		if a.Cluster == "" {
			continue // drawWait has shown it
		}
		if first {
			d.addSection("Needs a person")
			first = false
		}
		d.addLine("%s", attentionText(d.Now, "", a))
		d.addLine(indent+"%s", d.ink.Bold(d.ClusterCommand(d.Rollout, a)))
	}
}
