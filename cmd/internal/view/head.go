package view

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

func (d *drawing) addField(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i > 0 {
			name = ""
		}
		d.addLine("%-11s %s", name, line)
	}
}

func (d *drawing) drawHead() {
	r := d.Rollout
	d.addField("Rollout", "%s", d.ink.Bold(r.Namespace+"/"+r.Name))
	d.addField("Phase", "%s", d.phaseText())
	if r.Status.Message != "" {
		d.addField("Message", "%s", r.Status.Message)
	}
	for _, kind := range []api.ConditionType{api.ConditionStalled, api.ConditionRouteConflict} {
		if c := release.FindCondition(r, kind); c != nil && c.Status == corev1.ConditionTrue {
			text := string(c.Reason)
			if c.Message != r.Status.Message {
				text += ": " + c.Message
			}
			d.addField(string(kind), "%s", d.ink.Red(text))
		}
	}
	for _, warning := range []struct {
		field string
		kind  api.ConditionType
	}{
		{"More pods", api.ConditionReplicasAboveStep}, {"At risk", api.ConditionStableAtRisk}, {"Uncovered", api.ConditionCanaryUncovered}, {"Sessions", api.ConditionSessionsTorn}, {"Matches", api.ConditionMatchesDropped},
	} {
		if c := release.FindCondition(r, warning.kind); c != nil {
			d.addField(warning.field, "%s", d.ink.Yellow(c.Message))
		}
	}
	if r.Spec.Strategy.Paused {
		d.addField("Paused", "%s", d.ink.Yellow("spec.strategy.paused is true: the release stands still until it is false"))
	}
	d.addField("Strategy", "%s", describeStyle(r))
	if kind, name := release.WorkloadOf(r); name != "" {
		d.addField("Workload", "%s %s", kind, name)
	}
	if w := d.releasedWorkload(); w != nil && api.RolloutIDLetsThrough(w) {
		d.addField("Rollout id", "%s", d.ink.Yellow(api.RolloutID(w)+
			": while it has the value of the stable version, a change of the pod template rolls out without a step (OpenKruise's rule)"))
	}
}

// releasedWorkload returns the workload of the Rollout, or nil if it is unknown.
func (d *drawing) releasedWorkload() metav1.Object {
	if d.Workload != nil {
		return d.Workload
	}
	for i := range d.Deployments {
		if !isCanary(&d.Deployments[i]) {
			return &d.Deployments[i]
		}
	}
	return nil
}

func (d *drawing) phaseText() string {
	switch phase := string(d.Rollout.Status.Phase); api.Phase(phase) {
	case "":
		return d.ink.Yellow("not looked at yet: no executor has seen this Rollout (" + d.Command + " check tells why)")
	case api.PhaseHealthy:
		return d.ink.Green(phase)
	case api.PhaseProgressing:
		return d.ink.Cyan(phase)
	default:
		return d.ink.Yellow(phase)
	}
}
