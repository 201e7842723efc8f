package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Measured adds an analysis to a step.
func (g *given) Measured(n int32, a rollout.Analysis) *given {
	if a.OnFailure == "" {
		a.OnFailure = api.FailureAbort
	}
	g.Spec.Steps[n-1].Analysis = &a
	return g
}

// Watched adds an analysis of the whole release.
func (g *given) Watched(a rollout.Analysis) *given {
	if a.OnFailure == "" {
		a.OnFailure = api.FailureAbort
	}
	a.StartingStep = max(1, a.StartingStep)
	g.Spec.ReleaseAnalysis = &a
	return g
}

// Analysing puts the release into the state in which a step waits for its metrics.
func (g *given) Analysing() *given {
	g.Status.Sluice.PauseSeq++
	g.In(rollout.StateAnalysis)
	return g.Planned()
}

// Says sets the analyzer's result for the step.
func (g *given) Says(phase api.AnalysisPhase) *given {
	g.Status = *g.Status.DeepCopy()
	g.say(g.Status.Analysis.Step, phase)
	return g
}

// WholeSays sets the analyzer's result for the release.
func (g *given) WholeSays(phase api.AnalysisPhase) *given {
	g.Status = *g.Status.DeepCopy()
	g.say(g.Status.Analysis.Release, phase)
	return g
}

func (g *given) say(run *api.AnalysisRun, phase api.AnalysisPhase) {
	at, later := metav1.NewMicroTime(g.now), metav1.NewMicroTime(g.now.Add(time.Hour))
	run.Phase, run.Message, run.RenewBy = phase, "errors: 3 measurements failed", &later
	if phase == api.AnalysisPassed || phase == api.AnalysisFailed {
		run.EndedAt, run.RenewBy = &at, nil
	}
}

// Told puts a command into the status.
func (g *given) Told(action api.CommandAction) *given {
	m := g.Status.Sluice
	g.Status.Command = &api.Command{Action: action, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Actor: "jane", Comment: "on call"}
	return g
}

func TestAStepWithAnAnalysis(t *testing.T) {
	t.Parallel()
	plain, auto := rollout.Analysis{}, rollout.Analysis{AutoPromote: true}
	second := func(a rollout.Analysis) *given { return aRelease().Measured(2, a).AtStep(2).Analysing() }
	timed := func(a rollout.Analysis) *given {
		return aRelease().With(func(g *given) { g.Spec.Steps[1].Manual, g.Spec.Steps[1].Pause = false, time.Minute }).Measured(2, a).AtStep(2).Analysing()
	}
	rejoin := func(d time.Duration) func(*given) {
		return func(g *given) {
			at := metav1.NewMicroTime(g.now.Add(d))
			g.Status.Analysis.Step.RenewBy = &at
		}
	}
	for name, tt := range map[string]struct {
		given *given
		state rollout.State
		held  api.Reason
		acts  string
	}{
		"waits for its first measurement":                     {second(plain), rollout.StateAnalysis, "", "[]"},
		"waits while data is missing":                         {second(plain).Says(api.AnalysisWaiting), rollout.StateAnalysis, "", "[]"},
		"pauses for approval when its metrics have passed":    {second(plain).Says(api.AnalysisPassed), rollout.StatePaused, "", "[]"},
		"promotes itself when that is wanted":                 {second(auto).Says(api.AnalysisPassed), rollout.StateUpgrade, "", "[scale canary demo-canary to 8 replicas]"},
		"is not promoted by metrics that are merely fine":     {second(auto).Says(api.AnalysisPassing), rollout.StatePaused, "", "[]"},
		"goes on at the end of its pause":                     {timed(plain).Says(api.AnalysisPassing).After(time.Minute), rollout.StateUpgrade, "", "[scale canary demo-canary to 8 replicas]"},
		"goes on at the later of both, the pause":             {timed(plain).Says(api.AnalysisPassed).After(59 * time.Second), rollout.StatePaused, "", "[]"},
		"goes on at the later of both, the analysis":          {timed(plain).With(rejoin(time.Hour)).After(2 * time.Minute), rollout.StateAnalysis, "", "[]"},
		"asks a person when its metrics cannot tell":          {second(auto).Says(api.AnalysisInconclusive), rollout.StatePaused, rollout.ReasonAnalysisInconclusive, "[]"},
		"is stopped by a failure, traffic first":              {second(plain).Says(api.AnalysisFailed), rollout.StateAborted, "", "[restore VirtualService demo]"},
		"is held by a failure that is to pause":               {second(rollout.Analysis{OnFailure: api.FailurePause}).Says(api.AnalysisFailed), rollout.StatePaused, rollout.ReasonAnalysisFailed, "[]"},
		"is not stopped by what is only recorded":             {second(rollout.Analysis{DryRun: true}).Says(api.AnalysisFailed), rollout.StatePaused, "", "[]"},
		"is held when nobody measures":                        {second(plain).After(pickupTimeout), rollout.StateAnalysis, rollout.ReasonAnalysisStale, "[]"},
		"is stopped even while the Rollout is paused":         {second(plain).Says(api.AnalysisFailed).With(func(g *given) { g.Spec.Paused = true }), rollout.StateAborted, "", "[restore VirtualService demo]"},
		"is stopped while it waits for approval":              {second(plain).Says(api.AnalysisPassed).Planned().Says(api.AnalysisFailed), rollout.StateAborted, "", "[restore VirtualService demo]"},
		"stays when metrics fail that are of another stay":    {second(plain).Says(api.AnalysisFailed).With(func(g *given) { g.Status.Sluice.PauseSeq++ }), rollout.StateAnalysis, "", "[]"},
		"goes back to its workload's template if it is to":    {second(rollout.Analysis{OnFailure: api.FailureRollback}).Says(api.AnalysisFailed).Planned().unrouted().With(func(g *given) { g.Status.Sluice.RouteDigest = "" }), rollout.StateAborted, "", "[restore the template of h1 on Deployment demo]"},
		"is approved by force while its metrics are run":      {second(plain).Told(api.CommandApprove), rollout.StateUpgrade, "", "[scale canary demo-canary to 8 replicas]"},
		"is approved by force although its metrics failed":    {second(rollout.Analysis{OnFailure: api.FailurePause}).Says(api.AnalysisFailed).Told(api.CommandApprove), rollout.StateUpgrade, "", "[scale canary demo-canary to 8 replicas]"},
		"is aborted by a person":                              {second(plain).Told(api.CommandAbort), rollout.StateAborted, "", "[restore VirtualService demo]"},
		"stays for a command about an earlier release":        {second(plain).Told(api.CommandAbort).With(func(g *given) { g.Status.Command.Epoch-- }), rollout.StateAnalysis, "", "[]"},
		"is tried again by nobody while it is under way":      {second(plain).Told(api.CommandRetry), rollout.StateAnalysis, "", "[]"},
		"passes with the whole release's analysis as its own": {aRelease().Watched(auto).AtStep(2).Analysing().Says(api.AnalysisPassed).WholeSays(api.AnalysisPassing), rollout.StateUpgrade, "", "[scale canary demo-canary to 8 replicas]"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.given.outcome()
			if o.State != tt.state || o.Stalled != tt.held || fmt.Sprint(o.Actions) != tt.acts {
				t.Errorf("got %s, held for %q, acts %v: %s; want %s, %q, %s", o.State, o.Stalled, o.Actions, o.Message, tt.state, tt.held, tt.acts)
			}
		})
	}
}

func TestAReleaseUnderWatch(t *testing.T) {
	t.Parallel()
	whole := func(a rollout.Analysis, n int32) *given { return aRelease().Watched(a).AtStep(n).Analysing() }
	for name, tt := range map[string]struct {
		given *given
		state rollout.State
	}{
		"waits for a first measurement":              {whole(rollout.Analysis{}, 1), rollout.StateAnalysis},
		"goes on when nothing is against it":         {whole(rollout.Analysis{}, 1).WholeSays(api.AnalysisPassing), rollout.StatePaused},
		"is not measured before its first step":      {whole(rollout.Analysis{StartingStep: 2}, 1), rollout.StatePaused},
		"is stopped between two steps":               {whole(rollout.Analysis{}, 1).WholeSays(api.AnalysisFailed).In(rollout.StateUpgrade), rollout.StateAborted},
		"is stopped after an approval":               {whole(rollout.Analysis{}, 1).WholeSays(api.AnalysisFailed).Ready(), rollout.StateAborted},
		"is not stopped by the release before":       {whole(rollout.Analysis{}, 1).WholeSays(api.AnalysisFailed).With(func(g *given) { g.Status.Analysis.Release.Epoch-- }), rollout.StateAnalysis},
		"goes on when what stopped it was overruled": {whole(rollout.Analysis{OnFailure: api.FailurePause}, 1).WholeSays(api.AnalysisFailed).Told(api.CommandApprove), rollout.StateUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			if o := tt.given.outcome(); o.State != tt.state {
				t.Errorf("got %s (%s), want %s", o.State, o.Message, tt.state)
			}
		})
	}
}

func TestANewStepTellsTheAnalysisOfTheReleaseWhenItsTrafficChanged(t *testing.T) {
	t.Parallel()
	g := aRelease().Watched(rollout.Analysis{}).AtStep(1).Analysing().WholeSays(api.AnalysisPassing)
	began := g.Status.Analysis.Release.DeepCopy()
	g = g.After(time.Minute).AtStep(2).In(rollout.StateTrafficRouting)
	later := Plan(g.Seen, g.now).Status.Analysis.Release
	want := began
	at := metav1.NewMicroTime(g.now)
	want.RoutedAt, want.Step = &at, 2
	if diff := cmp.Diff(want, later); diff != "" {
		t.Errorf("the run of the release (-want +got):\n%s", diff)
	}
}

func TestAnAbortedRelease(t *testing.T) {
	t.Parallel()
	aborted := func() *given {
		return aRelease().With(func(g *given) { g.Spec.AbortDelay = rollout.AbortScaleDownDelay }).Measured(2, rollout.Analysis{}).AtStep(2).Analysing().
			Says(api.AnalysisFailed).Planned().unrouted()
	}
	rest := func() *given { return aborted().After(time.Minute).Cleared().Planned().Planned() }
	missed := func(g *given) *given {
		workload := g.Workload
		return g.With(func(g *given) { g.Workload = nil }).Planned().With(func(g *given) { g.Workload = workload })
	}
	for name, tt := range map[string]struct {
		given *given
		state rollout.State
		acts  string
	}{
		"keeps its canary for a while":     {aborted().Planned(), rollout.StateAborted, "[]"},
		"takes its canary away after that": {aborted().Planned().After(rollout.AbortScaleDownDelay), rollout.StateAborted, "[delete canary demo-canary]"},
		"rests":                            {rest(), rollout.StateAborted, "[]"},
		"makes way for another version":    {rest().HeldAt("v3"), rollout.StateBeforeUpgrade, "[pin Service demo to h1]"},
		"ends with a rollback":             {rest().RolledBack(), rollout.StateFinalising, "[resume Deployment demo]"},
		"is tried again":                   {rest().Told(api.CommandRetry), rollout.StateBeforeUpgrade, "[pin Service demo to h1]"},
		"gives the stable version back before it is deleted":          {rest().Deleted(), rollout.StateAborted, "[restore the template of h1 on Deployment demo]"},
		"gives it back before the Rollout is disabled":                {rest().Disabled(), rollout.StateAborted, "[restore the template of h1 on Deployment demo]"},
		"rests again when its workload was missing for a moment":      {missed(rest()), rollout.StateAborted, "[]"},
		"goes on with that where something was left":                  {missed(aborted().Planned()).Planned().After(time.Minute), rollout.StateAborted, "[delete canary demo-canary]"},
		"gives the stable version back when it was deleted meanwhile": {missed(aborted().Planned().Deleted()), rollout.StateAborted, "[restore the template of h1 on Deployment demo]"},
		"gives it back when the Rollout was disabled meanwhile":       {missed(rest().Disabled()), rollout.StateAborted, "[restore the template of h1 on Deployment demo]"},
		"is over when somebody has set its workload free meanwhile":   {missed(rest()).With(func(g *given) { g.Workload.Held = false }), rollout.StateInitializing, "[hold Deployment demo]"},
		"starts over when somebody had it tried again meanwhile":      {missed(rest().Told(api.CommandRetry)), rollout.StateBeforeUpgrade, "[pin Service demo to h1]"},
		"ends with a rollback while its workload was missing":         {missed(rest()).RolledBack(), rollout.StateFinalising, "[resume Deployment demo]"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.given.outcome()
			if o.State != tt.state || fmt.Sprint(o.Actions) != tt.acts {
				t.Errorf("got %s, acts %v: %s; want %s, %s", o.State, o.Actions, o.Message, tt.state, tt.acts)
			}
		})
	}
	const why = "Stopped at step 2 of 3: the analysis of the step failed: errors: 3 measurements failed. All traffic is on the stable version. " +
		"Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	g := rest()
	for range 2 * api.MaxTransitions { // remarks push the reason out of the outbox
		g = g.With(func(g *given) {
			g.Problems = []rollout.Problem{{Reason: rollout.ReasonRouteMissing, Message: "gone", Unknown: true}}
		}).Planned()
		g = g.With(func(g *given) { g.Problems = nil }).Planned()
	}
	d := Plan(g.Seen, g.now)
	if diff := cmp.Diff(why, d.Status.Message); diff != "" {
		t.Errorf("the message (-want +got):\n%s", diff)
	}
	p := planner{status: d.Status}
	if c := p.findCondition(api.ConditionProgressing); c == nil || c.Reason != api.ReasonAborted {
		t.Errorf("the condition is %+v", c)
	}
}

func TestAnApprovalDoesNotOverruleMetrics(t *testing.T) {
	t.Parallel()
	failed := func() *given {
		return aPause().Measured(1, rollout.Analysis{OnFailure: api.FailurePause}).Planned().Says(api.AnalysisFailed)
	}
	o := failed().Approved().outcome()
	if o.State != rollout.StatePaused || len(o.Notes) != 1 || o.Stalled != rollout.ReasonAnalysisFailed {
		t.Errorf("kubectl's approval led to %+v", o)
	}
	g := failed()
	if j := EvaluateApproval(g.Seen, anApproval(), g.now); j.Refusal != api.RefusalAnalysisFailed {
		t.Errorf("an event's approval is answered by %+v", j)
	}
	if j := EvaluateApproval(g.Seen, anApproval(func(p *ApprovalRequest) { p.Decision = api.DecisionReject }), g.now); j.Refusal != "" {
		t.Errorf("a rejection is answered by %+v", j)
	}
	g = failed().Told(api.CommandApprove)
	list := Plan(g.Seen, g.now).Status.Approvals
	if len(list) != 1 || !list[0].Forced || list[0].Actor != "jane" || list[0].Comment != "on call" {
		t.Errorf("an approval by force is recorded as %+v", list)
	}
}

func TestPromotionByMetricsIsRecorded(t *testing.T) {
	t.Parallel()
	g := aRelease().Measured(1, rollout.Analysis{AutoPromote: true}).AtStep(1).Analysing().Says(api.AnalysisPassed)
	list := Plan(g.Seen, g.now).Status.Approvals
	if len(list) != 1 || list[0].Forced || list[0].Actor != rollout.AnalysisActor || list[0].Comment != "errors: 3 measurements failed" {
		t.Errorf("it is recorded as %+v", list)
	}
}
