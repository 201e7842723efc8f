package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// pickupTimeout is the maximum time that a run of analysis waits for an analyzer.
const pickupTimeout = 30 * time.Second

// gate is a run of analysis that can stop the release, with the part of the release that it measures.
type gate struct {
	run   *api.AnalysisRun
	of    *rollout.Analysis
	whole bool
}

func (g gate) String() string {
	if g.whole {
		return "the analysis of the release"
	}
	return "the analysis of the step"
}

// ensureAnalysisRuns keeps the records of the runs to measure: the run of the step while the machine stays at it, and the run of the whole release.
// The analyzer fills them in.
func (p *planner) ensureAnalysisRuns() {
	step, whole := p.seen.Spec.StepAnalysis(p.m.Step), p.seen.Spec.ReleaseAnalysis
	if whole != nil && p.m.Step < whole.StartingStep {
		whole = nil
	}
	if step == nil && whole == nil {
		p.status.Analysis = nil
		return
	}
	if p.status.Analysis == nil {
		p.status.Analysis = &api.AnalysisStatus{}
	}
	all := p.status.Analysis
	switch {
	case step == nil:
		all.Step = nil
	case !p.isCurrentRun(all.Step):
		all.Step = p.newRun()
	}
	switch {
	case whole == nil:
		all.Release = nil
	case all.Release == nil || all.Release.Epoch != p.m.Epoch:
		all.Release = p.newRun()
	}
}

// isCurrentRun reports whether a run belongs to the current stay at the step.
func (p *planner) isCurrentRun(run *api.AnalysisRun) bool {
	return run != nil && run.Epoch == p.m.Epoch && run.PauseSeq == p.m.PauseSeq
}

func (p *planner) newRun() *api.AnalysisRun {
	now, renew := microTime(p.now), microTime(p.now.Add(pickupTimeout))
	return &api.AnalysisRun{
		Phase: api.AnalysisRunning, Message: "Nothing has been measured yet.", Epoch: p.m.Epoch, Step: p.m.Step, PauseSeq: p.m.PauseSeq,
		StartedAt: &now, RoutedAt: &now, RenewBy: &renew,
	}
}

// updateRoutedAt records in the analysis of the release that the traffic has changed.
func (p *planner) updateRoutedAt() {
	p.ensureAnalysisRuns()
	if all := p.status.Analysis; all != nil && all.Release != nil {
		now := microTime(p.now)
		all.Release.RoutedAt, all.Release.Step = &now, p.m.Step
	}
}

// activeGates returns the runs that can stop the release now. If the step is approved or is about to end, only the run of the whole release counts.
func (p *planner) activeGates() []gate {
	var list []gate
	all := p.status.Analysis
	if all == nil {
		return nil
	}
	if of := p.seen.Spec.StepAnalysis(p.m.Step); of != nil && !of.DryRun && p.isCurrentRun(all.Step) && (p.currentState() == rollout.StateAnalysis || p.currentState() == rollout.StatePaused) {
		list = append(list, gate{run: all.Step, of: of})
	}
	if of := p.seen.Spec.ReleaseAnalysis; of != nil && !of.DryRun && all.Release != nil && all.Release.Epoch == p.m.Epoch {
		list = append(list, gate{run: all.Release, of: of, whole: true})
	}
	return list
}

// worstGate returns the gate with the worst phase; ok is false if no gate is against the next step.
func (p *planner) worstGate() (worst gate, ok bool) {
	gates := p.activeGates()
	for _, phase := range []api.AnalysisPhase{api.AnalysisFailed, api.AnalysisInconclusive, api.AnalysisWaiting, api.AnalysisRunning} {
		for _, g := range gates {
			if g.run.Phase == phase || phase == api.AnalysisRunning && g.run.Phase == "" {
				return g, true
			}
		}
	}
	return gate{}, false
}

// abortOnFailedMetrics aborts a release whose metrics failed, in any state of a step. With OnFailure Pause, the release stalls at the end of the step
// instead.
func (p *planner) abortOnFailedMetrics() bool {
	for _, g := range p.activeGates() {
		if g.run.Phase != api.AnalysisFailed || g.of.OnFailure == api.FailurePause {
			continue
		}
		reason := api.FinaliseAborted
		if g.of.OnFailure == api.FailureRollback {
			reason = api.FinaliseRollback
		}
		p.abortRelease(reason, "AnalysisFailed", fmt.Sprintf("step %d of %d: %s failed: %s", p.m.Step, len(p.seen.Spec.Steps), g, g.run.Message), rollout.AnalysisActor)
		return true
	}
	return false
}

// planAnalysis stays in the step until its metrics have a result.
func (p *planner) planAnalysis() {
	if !p.ensureStep() {
		return
	}
	p.ensureAnalysisRuns()
	n, total := p.m.Step, len(p.seen.Spec.Steps)
	g, ok := p.worstGate()
	switch {
	case p.holdUnmeasured():
	case p.seen.Spec.StepAnalysis(n) == nil && !ok:
		p.enterState(rollout.StatePaused, "NoAnalysis", fmt.Sprintf("step %d of %d is reached and pauses", n, total), "")
	case !ok:
		p.enterState(rollout.StatePaused, "AnalysisPassed", fmt.Sprintf("step %d of %d is reached, and its metrics have nothing against it", n, total), "")
	case g.run.Phase == api.AnalysisFailed || g.run.Phase == api.AnalysisInconclusive:
		p.enterState(rollout.StatePaused, "Analysis"+string(g.run.Phase), fmt.Sprintf("step %d of %d: %s needs a person: %s", n, total, g, g.run.Message), "")
	default:
		p.awaitMetrics(g)
	}
}

// awaitMetrics waits for the result of a gate.
func (p *planner) awaitMetrics(g gate) {
	p.waitForEvent("Rollout is in step(%d/%d), and %s is under way: %s", p.m.Step, len(p.seen.Spec.Steps), g, g.run.Message)
	p.wakeAtRenewal()
}

// wakeAtRenewal plans the next run for the time at which the analyzer must have renewed an active gate.
func (p *planner) wakeAtRenewal() {
	for _, g := range p.activeGates() {
		if by := g.run.RenewBy; g.run.EndedAt == nil && by != nil {
			p.wakeAt(by.Time)
		}
	}
}

// holdUnmeasured stalls the release if the analyzer did not renew an active gate in time.
func (p *planner) holdUnmeasured() bool {
	for _, g := range p.activeGates() {
		by := g.run.RenewBy
		if g.run.EndedAt != nil || by == nil || p.now.Before(by.Time) {
			continue
		}
		p.holdFor(rollout.Problem{Reason: rollout.ReasonAnalysisStale, Message: fmt.Sprintf(
			"No analyzer has measured for %s since %s; see that an analyzer of this cluster runs and reaches NATS: kubectl get pods -A -l app.kubernetes.io/name=sluice-analyzer", g, formatTimestamp(by.Time))})
		return true
	}
	return false
}

// blockedByMetrics reports whether metrics keep a paused step from ending by itself: they failed, or have no result yet.
func (p *planner) blockedByMetrics() bool {
	if p.holdUnmeasured() {
		return true
	}
	g, ok := p.worstGate()
	if !ok {
		return false
	}
	switch g.run.Phase {
	case api.AnalysisFailed:
		p.holdFor(rollout.Problem{Reason: rollout.ReasonAnalysisFailed, Message: fmt.Sprintf(
			"Step %d: %s failed: %s Roll the workload back, or go on nevertheless: sluice approve %s -n %s --force",
			p.m.Step, g, rollout.EndSentence(g.run.Message), p.seen.Name, p.seen.Namespace)})
	case api.AnalysisInconclusive:
		p.holdFor(rollout.Problem{Reason: rollout.ReasonAnalysisInconclusive, Message: fmt.Sprintf(
			"Step %d: %s cannot decide: %s Roll the workload back, or go on: sluice approve %s -n %s",
			p.m.Step, g, rollout.EndSentence(g.run.Message), p.seen.Name, p.seen.Namespace)})
	default:
		p.awaitMetrics(g)
	}
	return true
}

// approveByMetrics reports whether passed metrics replace the approval of the step, and records the approval.
func (p *planner) approveByMetrics() bool {
	if !p.seen.Spec.StepAnalysis(p.m.Step).StandsForApproval() {
		return false
	}
	run := p.status.Analysis.Step
	if run.Phase != api.AnalysisPassed {
		return false
	}
	p.recordDecision(api.Approval{Decision: api.DecisionApprove, Actor: rollout.AnalysisActor, Comment: run.Message})
	p.leavePause()
	return true
}

// pauseOver returns the end of the step's pause. With an analysis, the pause begins with the analysis, so the later of both ends the step.
func (p *planner) pauseOver() time.Time {
	began := p.stateSince()
	if all := p.status.Analysis; all != nil && p.isCurrentRun(all.Step) && all.Step.StartedAt != nil {
		began = all.Step.StartedAt.Time
	}
	return began.Add(p.currentStep().Pause)
}

// endRuns marks all runs as ended.
func (p *planner) endRuns() {
	if p.status.Analysis == nil {
		return
	}
	for _, run := range []*api.AnalysisRun{p.status.Analysis.Step, p.status.Analysis.Release} {
		if run != nil && run.EndedAt == nil {
			at := microTime(p.now)
			run.EndedAt, run.RenewBy = &at, nil
		}
	}
}
