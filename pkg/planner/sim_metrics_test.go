package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// measuring returns the runs that an analyzer would measure now; the key is true for the run of the whole release.
func (w *world) measuring() map[bool]*api.AnalysisRun {
	r := &api.Rollout{Status: w.status}
	r.Spec.Disabled = w.disabled
	if w.deleting {
		r.DeletionTimestamp = &metav1.Time{Time: start}
	}
	found := map[bool]*api.AnalysisRun{}
	step, release := rollout.MeasuredRuns(r)
	if step != nil {
		found[false] = step
	}
	if release != nil {
		found[true] = release
	}
	return found
}

// say is a write of an analyzer.
func (w *world) say(whole bool, phase api.AnalysisPhase) {
	status := w.status.DeepCopy()
	run := status.Analysis.Step
	if whole {
		run = status.Analysis.Release
	}
	now, renew := metav1.NewMicroTime(w.time()), metav1.NewMicroTime(w.time().Add(time.Hour))
	run.Phase, run.Message, run.RenewBy = phase, "it is "+string(phase), &renew
	if phase == api.AnalysisPassed || phase == api.AnalysisFailed {
		run.EndedAt, run.RenewBy = &now, nil
	}
	if of := w.model.spec.StepAnalysis(int32(w.step())); !whole && phase == api.AnalysisPassed && of.AutoPromote && !of.DryRun {
		w.allow(w.step() + 1)
	}
	w.status = *status
	w.touched(onRollout)
}

// command is a user's command to the release.
func (w *world) command(action api.CommandAction) {
	status := w.status.DeepCopy()
	m := machine(status)
	status.Command = &api.Command{Action: action, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Actor: "jane"}
	if action == api.CommandApprove && (w.state() == rollout.StateAnalysis || w.state() == rollout.StatePaused) {
		w.allow(w.step() + 1)
	}
	if action == api.CommandPromote && w.state().InStep() {
		w.allow(int8(len(w.agreed().Steps) + 1))
	}
	w.status = *status
	w.touched(onRollout)
}

// against reports whether metrics object to the next step, so only a person can overrule them.
func (w *world) against() bool {
	p := planner{seen: w.see(), m: w.status.Sluice, status: w.status}
	g, ok := p.worstGate()
	return ok && (g.run.Phase == api.AnalysisFailed || g.run.Phase == api.AnalysisInconclusive)
}

// measures lists the good results of metrics.
func (w *world) measures() []move {
	var moves []move
	for _, whole := range []bool{false, true} {
		run := w.measuring()[whole]
		if run == nil {
			continue
		}
		late := run.RenewBy != nil && !w.time().Before(run.RenewBy.Time)
		if run.Phase == api.AnalysisRunning || run.Phase == api.AnalysisWaiting || late {
			phase := api.AnalysisPassed
			if whole {
				phase = api.AnalysisPassing
			}
			moves = append(moves, move{"metrics say " + string(phase), func(w *world) { w.say(whole, phase) }})
		}
	}
	return moves
}

// misfortunes lists the bad results of metrics.
func (w *world) misfortunes() []move {
	var moves []move
	for _, whole := range []bool{false, true} {
		run := w.measuring()[whole]
		if run == nil {
			continue
		}
		for _, phase := range []api.AnalysisPhase{api.AnalysisFailed, api.AnalysisInconclusive, api.AnalysisWaiting} {
			if run.Phase != phase {
				moves = append(moves, move{fmt.Sprintf("metrics say %s (whole release: %t)", phase, whole), func(w *world) { w.say(whole, phase) }})
			}
		}
	}
	return moves
}

// commands lists the commands that users may give.
func (w *world) commands() []move {
	if w.status.Command != nil || w.status.Sluice == nil || w.status.Sluice.Epoch == 0 {
		return nil
	}
	var moves []move
	actions := []api.CommandAction{api.CommandAbort, api.CommandRetry, api.CommandApprove, api.CommandPromote}
	if w.model.fleet {
		actions = append(actions, api.CommandOverride)
	}
	for _, action := range actions {
		moves = append(moves, move{"the command " + string(action), func(w *world) { w.command(action) }})
	}
	return moves
}

// metrics checks a decision against the results of metrics.
func (c *checks) metrics(w *world, seen rollout.Seen, d rollout.Decision) {
	before, after := machine(&seen.Status), machine(&d.Status)
	p := planner{seen: seen, m: &before, status: seen.Status}
	stopped := false
	for _, g := range p.activeGates() {
		stopped = stopped || g.run.Phase == api.AnalysisFailed && g.of.OnFailure != api.FailurePause && rollout.State(before.State).InStep()
	}
	overruled := seen.Status.Command != nil || before.Epoch != after.Epoch // another version is another release
	for _, a := range d.Actions {
		if !a.RaisesExposure() || w.lowers(a) {
			continue
		}
		c.that(!stopped || overruled || rollout.State(after.State) != rollout.State(before.State) && !rollout.State(after.State).InStep(), "FailedMetricsRaiseNothing", "%s after metrics failed", a)
		c.that(rollout.State(after.State) != rollout.StateAborted, "FailedMetricsRaiseNothing", "%s in a release that was aborted", a)
	}
	c.promotion(seen, before, d)
}

// promotion checks the end of a step with an analysis.
func (c *checks) promotion(seen rollout.Seen, before api.SluiceStatus, d rollout.Decision) {
	after := machine(&d.Status)
	of := seen.Spec.StepAnalysis(before.Step)
	left := after.State == string(rollout.StateReady) && before.State != string(rollout.StateReady) && before.Epoch == after.Epoch && before.Step == after.Step
	if of == nil || of.DryRun || !left || before.State != string(rollout.StatePaused) && before.State != string(rollout.StateAnalysis) {
		return
	}
	s := api.RolloutStatus{Sluice: &before, Approvals: d.Status.Approvals}
	phase := api.AnalysisPhase("")
	if all := seen.Status.Analysis; all != nil && all.Step != nil && all.Step.Epoch == before.Epoch && all.Step.PauseSeq == before.PauseSeq {
		phase = all.Step.Phase
	}
	passed := phase == api.AnalysisPassed || phase == api.AnalysisPassing
	c.that(passed || decisionOf(&s) == api.DecisionApprove, "NoPromotionWithoutVerdict", "the step was left while its metrics said %q", phase)
}
