package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// takenUp is how long a run of analysis may wait for whoever measures it.
const takenUp = 30 * time.Second

// gate is a run of analysis that has a say, and what it is about.
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

// analyse keeps the records of what is to be measured: that of the step for as long as the machine stays at it, and that of the whole
// release. Whoever measures fills them in.
func (p *planner) analyse() {
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
	case !p.current(all.Step):
		all.Step = p.newRun()
	}
	switch {
	case whole == nil:
		all.Release = nil
	case all.Release == nil || all.Release.Epoch != p.m.Epoch:
		all.Release = p.newRun()
	}
}

// current reports whether a run is that of this stay at the step.
func (p *planner) current(run *api.AnalysisRun) bool {
	return run != nil && run.Epoch == p.m.Epoch && run.PauseSeq == p.m.PauseSeq
}

func (p *planner) newRun() *api.AnalysisRun {
	now, renew := microTime(p.now), microTime(p.now.Add(takenUp))
	return &api.AnalysisRun{
		Phase: api.AnalysisRunning, Message: "Nothing has been measured yet.", Epoch: p.m.Epoch, Step: p.m.Step, PauseSeq: p.m.PauseSeq,
		StartedAt: &now, RoutedAt: &now, RenewBy: &renew,
	}
}

// routed tells the analysis of the release that the traffic is another one now.
func (p *planner) routed() {
	p.analyse()
	if all := p.status.Analysis; all != nil && all.Release != nil {
		now := microTime(p.now)
		all.Release.RoutedAt, all.Release.Step = &now, p.m.Step
	}
}

// gates are the runs that have a say now. In a step that was approved, or is being left, only the whole release is watched.
func (p *planner) gates() []gate {
	var list []gate
	all := p.status.Analysis
	if all == nil {
		return nil
	}
	if of := p.seen.Spec.StepAnalysis(p.m.Step); of != nil && !of.DryRun && p.current(all.Step) && (p.state() == rollout.StateAnalysis || p.state() == rollout.StatePaused) {
		list = append(list, gate{run: all.Step, of: of})
	}
	if of := p.seen.Spec.ReleaseAnalysis; of != nil && !of.DryRun && all.Release != nil && all.Release.Epoch == p.m.Epoch {
		list = append(list, gate{run: all.Release, of: of, whole: true})
	}
	return list
}

// worst is the gate that has most against going on; ok is false when none has anything.
func (p *planner) worst() (worst gate, ok bool) {
	gates := p.gates()
	for _, phase := range []api.AnalysisPhase{api.AnalysisFailed, api.AnalysisInconclusive, api.AnalysisHeld, api.AnalysisRunning} {
		for _, g := range gates {
			if g.run.Phase == phase || phase == api.AnalysisRunning && g.run.Phase == "" {
				return g, true
			}
		}
	}
	return gate{}, false
}

// failed stops a release whose metrics failed, whatever it is waiting for. What only pauses for that is held where steps end.
func (p *planner) failed() bool {
	for _, g := range p.gates() {
		if g.run.Phase != api.AnalysisFailed || g.of.OnFailure == api.FailurePause {
			continue
		}
		reason := api.FinaliseAborted
		if g.of.OnFailure == api.FailureRollback {
			reason = api.FinaliseRollback
		}
		p.abort(reason, "AnalysisFailed", fmt.Sprintf("step %d of %d: %s failed: %s", p.m.Step, len(p.seen.Spec.Steps), g, g.run.Message), rollout.AnalysisActor)
		return true
	}
	return false
}

// analysing stays in the step until its metrics have spoken.
func (p *planner) analysing() {
	if !p.ensureStep() {
		return
	}
	p.analyse()
	n, total := p.m.Step, len(p.seen.Spec.Steps)
	g, ok := p.worst()
	switch {
	case p.unmeasured():
	case p.seen.Spec.StepAnalysis(n) == nil && !ok:
		p.to(rollout.StatePaused, "NoAnalysis", fmt.Sprintf("step %d of %d is reached and pauses", n, total), "")
	case !ok:
		p.to(rollout.StatePaused, "AnalysisPassed", fmt.Sprintf("step %d of %d is reached, and its metrics have nothing against it", n, total), "")
	case g.run.Phase == api.AnalysisFailed || g.run.Phase == api.AnalysisInconclusive:
		p.to(rollout.StatePaused, "Analysis"+string(g.run.Phase), fmt.Sprintf("step %d of %d: %s needs a person: %s", n, total, g, g.run.Message), "")
	default:
		p.awaitMetrics(g)
	}
}

// awaitMetrics waits for what metrics say.
func (p *planner) awaitMetrics(g gate) {
	p.wait("Rollout is in step(%d/%d), and %s is under way: %s", p.m.Step, len(p.seen.Spec.Steps), g, g.run.Message)
	p.mind()
}

// mind looks again when a run that has a say is to be renewed.
func (p *planner) mind() {
	for _, g := range p.gates() {
		if by := g.run.RenewBy; g.run.EndedAt == nil && by != nil && (p.wake.IsZero() || by.Time.Before(p.wake)) {
			p.wake = by.Time
		}
	}
}

// unmeasured holds the release when a run that has a say was not renewed in time.
func (p *planner) unmeasured() bool {
	for _, g := range p.gates() {
		by := g.run.RenewBy
		if g.run.EndedAt != nil || by == nil || p.now.Before(by.Time) {
			continue
		}
		p.holdFor(rollout.Problem{Reason: rollout.HoldAnalysisSilent, Message: fmt.Sprintf(
			"Nobody has measured for %s since %s; see that an analyzer of this cluster runs and reaches NATS: kubectl get pods -n sluice-system", g, stamp(by.Time))})
		return true
	}
	return false
}

// blockedByMetrics keeps a paused step from ending by itself: its metrics are against that, or have not spoken.
func (p *planner) blockedByMetrics() bool {
	if p.unmeasured() {
		return true
	}
	g, ok := p.worst()
	if !ok {
		return false
	}
	switch g.run.Phase {
	case api.AnalysisFailed:
		p.holdFor(rollout.Problem{Reason: rollout.HoldAnalysisFailed, Message: fmt.Sprintf(
			"Step %d: %s failed: %s Roll the workload back, or go on nevertheless: sluice approve %s -n %s --force",
			p.m.Step, g, rollout.Sentence(g.run.Message), p.seen.Name, p.seen.Namespace)})
	case api.AnalysisInconclusive:
		p.holdFor(rollout.Problem{Reason: rollout.HoldAnalysisInconclusive, Message: fmt.Sprintf(
			"Step %d: %s cannot decide: %s Roll the workload back, or go on: sluice approve %s -n %s",
			p.m.Step, g, rollout.Sentence(g.run.Message), p.seen.Name, p.seen.Namespace)})
	default:
		p.awaitMetrics(g)
	}
	return true
}

// promoted reports whether metrics stand for the approval that the step waits for, and takes them for it.
func (p *planner) promoted() bool {
	of := p.seen.Spec.StepAnalysis(p.m.Step)
	if of == nil || of.DryRun || !of.AutoPromote {
		return false
	}
	run := p.status.Analysis.Step
	if run.Phase != api.AnalysisPassed {
		return false
	}
	p.record(api.Approval{Decision: api.DecisionApprove, Actor: rollout.AnalysisActor, Comment: run.Message})
	p.approved()
	return true
}

// pauseOver is when the pause of the step ends: with an analysis it began with that, so that the later of both ends the step.
func (p *planner) pauseOver() time.Time {
	began := p.since()
	if all := p.status.Analysis; all != nil && p.current(all.Step) && all.Step.StartedAt != nil {
		began = all.Step.StartedAt.Time
	}
	return began.Add(p.step().Pause)
}

// endRuns says of all runs that nothing more is measured.
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
