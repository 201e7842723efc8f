package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// describeStyle describes the release style of a Rollout in words.
func describeStyle(r *api.Rollout) string {
	switch rollout.StyleOf(r) {
	case rollout.StyleBlueGreen:
		return "blue-green"
	case rollout.StyleCanary:
		return "canary, in a second workload"
	case rollout.StylePartition:
		return "partition, in the workload itself"
	}
	return "none"
}

func routingsOf(r *api.Rollout) []api.TrafficRoutingRef {
	switch s := r.Spec.Strategy; {
	case s.BlueGreen != nil:
		return s.BlueGreen.TrafficRoutings
	case s.Canary != nil:
		return s.Canary.TrafficRoutings
	}
	return nil
}

// stepProgress returns the current step, or 0 without a release under way, and the number of completed steps.
func (d *drawing) stepProgress() (current, done int) {
	steps, status := len(release.Steps(d.Rollout)), d.Rollout.Status
	index, state := int(status.CurrentStepIndex), status.CurrentStepState
	switch {
	case status.Sluice != nil && status.Sluice.Epoch == 0:
		return 0, 0 // before a release; OpenKruise then shows the last step as completed, and so does Sluice
	case state == api.StepCompleted && index == steps:
		return 0, steps
	case status.Phase == api.PhaseProgressing && index > 0 && !d.isFinalising():
		return index, index - 1
	}
	return 0, 0
}

func (d *drawing) isFinalising() bool {
	return commonStatus(d.Rollout).FinalisingStep != ""
}

func (d *drawing) drawSteps() {
	steps := release.DescribeSteps(d.Rollout)
	if len(steps) == 0 {
		return
	}
	d.addSection("Steps")
	current, done := d.stepProgress()
	for i, text := range steps {
		n, mark := i+1, " "
		switch {
		case n == current && d.isAborted():
			d.addLine("%s %2d  %s  %s", d.ink.Red(d.marks.Failed), n, text, d.ink.Red("<- stopped here"))
			d.drawAborted()
			continue
		case n == current:
			d.addLine("%s %2d  %s  %s", d.ink.Cyan(d.marks.Here), n, text, d.ink.Cyan("<- you are here"))
			d.drawCurrentStep()
			continue
		case n <= done:
			mark = d.ink.Green(d.marks.Done)
		}
		d.addLine("%s %2d  %s", mark, n, text)
	}
	d.drawFinalising()
}

// drawCurrentStep shows the state of the current step, its wait, and the command to type.
func (d *drawing) drawCurrentStep() {
	const indent = "       "
	status := d.Rollout.Status
	state := string(status.CurrentStepState)
	if s := status.Sluice; s != nil && s.Since != nil {
		state += " for " + d.ageText(s.Since.Time)
	}
	d.addLine(indent+"%s", state)
	d.drawTrafficNow(indent)
	if held := release.FindCondition(d.Rollout, api.ConditionStalled); held != nil && held.Status == corev1.ConditionTrue {
		d.addLine(indent + "waits until a user fixes the problem shown above under Stalled")
		return
	}
	if status.CurrentStepState == api.StepMetricsAnalysis && status.Analysis != nil {
		d.addLine(indent + "waits for its metrics; to see them, type:")
		d.addLine(indent+"  %s", d.ink.Bold(d.commandText("analysis get", " -w")))
		return
	}
	if status.CurrentStepState != api.StepPaused {
		if message := commonStatus(d.Rollout).Message; message != "" && message != status.Message {
			d.addLine(indent+"%s", message)
		}
		return
	}
	step := release.Steps(d.Rollout)[status.CurrentStepIndex-1]
	if step.Pause.Duration == nil {
		d.addLine(indent + "waits for approval; to approve, type:")
	} else {
		d.addLine(indent+"goes on by itself%s; to go on now, type:", d.remainingText(*step.Pause.Duration))
	}
	d.addLine(indent+"  %s", d.ink.Bold(d.commandText("approve", "")))
}

// drawTrafficNow shows the share of requests of the new version, if the step asks for another share.
func (d *drawing) drawTrafficNow(indent string) {
	gets := d.Rollout.Status.Sluice.GetTraffic()
	spec, err := rollout.Parse(d.Rollout)
	step, ok := spec.Step(d.Rollout.Status.CurrentStepIndex)
	if err != nil || !ok || gets == "" || gets == step.Traffic() {
		return
	}
	what := gets + " of the traffic"
	if gets == rollout.TrafficMatches {
		what = "the requests that match"
	}
	d.addLine(indent+"%s", d.ink.Yellow("the new version gets "+what+" now"))
}

func (d *drawing) remainingText(seconds int32) string {
	s := d.Rollout.Status.Sluice
	if s == nil || s.Since == nil {
		return ""
	}
	return " in " + shortDuration(s.Since.Add(time.Duration(seconds)*time.Second).Sub(d.Now))
}

// commandText returns a command about the Rollout, as its user types it.
func (d *drawing) commandText(verb, flags string) string {
	command := d.Command + " " + verb + " " + d.Rollout.Name
	if d.Namespaced {
		command += " -n " + d.Rollout.Namespace
	}
	return command + flags
}

// drawFinalising shows how a release ends after its steps.
func (d *drawing) drawFinalising() {
	if !d.isFinalising() || d.Rollout.Status.Sluice == nil {
		return
	}
	s := d.Rollout.Status.Sluice
	d.addLine("%s     finalising (%s): %s", d.ink.Cyan(d.marks.Here), s.FinaliseReason, commonStatus(d.Rollout).FinalisingStep)
}
