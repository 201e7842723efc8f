package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestARaiseWaitsOnlyForAnIntentThatIsNotCommitted(t *testing.T) {
	routed := func(g *given) { g.Status.Sluice.RouteDigest = "d1" }
	cases := map[string]struct {
		change func(*given)
		action rollout.Action
		plan   func(*planner)
		want   bool
	}{
		"pods in the step that is committed":             {nil, rollout.ScaleCanary{}, nil, true},
		"pods in another state of that step":             {nil, rollout.ScaleCanary{}, func(p *planner) { p.m.State = string(rollout.StateUpgrade) }, true},
		"pods of the next step":                          {nil, rollout.ScaleCanary{}, func(p *planner) { p.m.Step++ }, false},
		"pods of another release":                        {nil, rollout.CreateCanary{}, func(p *planner) { p.m.Epoch++ }, false},
		"pods by another plan of the same step":          {nil, rollout.ScaleCanary{}, func(p *planner) { p.m.PlanHash = "x" }, false},
		"pods of another version":                        {nil, rollout.CreateCanary{}, func(p *planner) { p.m.CanaryRevision = "x" }, false},
		"pods beside another stable version":             {nil, rollout.CreateCanary{}, func(p *planner) { p.m.StableRevision = "x" }, false},
		"pods of another workload of that name":          {nil, rollout.CreateCanary{}, func(p *planner) { p.m.WorkloadUID = "x" }, false},
		"the first route":                                {nil, rollout.ApplyRoute{}, nil, false},
		"another route":                                  {routed, rollout.ApplyRoute{}, nil, true},
		"letting go, while the end is not yet committed": {nil, rollout.ResumeWorkload{}, func(p *planner) { p.m.State = string(rollout.StateFinalising) }, false},
		"letting go of the Rollout":                      {nil, rollout.RemoveFinalizer{}, nil, false},
		"the end of a hold":                              {nil, rollout.DisownWorkload{}, nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := aRelease()
			if c.change != nil {
				c.change(g)
			}
			p := newPlanner(g.Seen, g.now)
			if c.plan != nil {
				c.plan(p)
			}
			if got := p.intentCommitted(c.action); got != c.want {
				t.Errorf("intended is %v, want %v", got, c.want)
			}
		})
	}
}

// Some actions remove the reason for their decision. If the run dies between action and commit, or meets a conflict, a later planner would not make
// that decision again.
func TestWhatIsNotDecidedAgainIsCommittedFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given *given
		acts  string
	}{
		"an abort by the clock, which takes the pods that are late": {
			fewPods(api.DeadlineAbort).After(time.Minute), "[restore VirtualService demo]",
		},
		"the whole time for a step that nobody worked on": {
			fewPods(api.DeadlineAbort).With(func(g *given) { g.Canary.Replicas = 4 }).After(time.Hour), "[scale canary demo-canary to 5 replicas]",
		},
		"an abort by metrics, which looks like a rollback without its version": {
			aRelease().With(func(g *given) { g.Spec.AbortDelay = rollout.AbortScaleDownDelay }).Measured(2, rollout.Analysis{OnFailure: api.FailureRollback}).AtStep(2).
				Analysing().Says(api.AnalysisFailed).unrouted().With(func(g *given) { g.Status.Sluice.RouteDigest = "" }),
			"[restore the template of h1 on Deployment demo]",
		},
		"traffic by a TrafficRouting that nothing was known of": {
			aRelease().AtStep(2).asking(rollout.TrafficRouting{Claimed: true}).RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) { g.Status.Sluice.RouteDigest = "" }),
			"[release TrafficRouting gray]",
		},
		"a step with less traffic, which the one before would take back": {
			aRelease().With(func(g *given) { g.Spec.Steps[1] = rollout.Step{Replicas: g.Spec.Steps[0].Replicas}; g.replan() }).Planned().AtStep(1).Ready(), "[restore VirtualService demo]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(c.given.Seen, c.given.now)
			if diff := cmp.Diff(c.acts, fmt.Sprint(d.Actions)); diff != "" || !d.CommitFirst {
				t.Errorf("commit first: %t, in state %s; acts (-want +got):\n%s", d.CommitFirst, d.Status.Sluice.State, diff)
			}
		})
	}
}

func TestWhatIsCarriedAlongIsCommittedBeforeARaise(t *testing.T) {
	g := aRollout().HeldAt("v2")
	var run Run
	first := run.Plan(g.Seen, g.now)
	if diff := cmp.Diff("[pin Service demo to h1]", fmt.Sprint(first.Actions)); diff != "" || first.CommitFirst {
		t.Fatalf("the first decision (-want +got), commit first %v:\n%s", first.CommitFirst, diff)
	}
	g.StableService.Hash = "h1"
	run.CarryStatus(first)
	second := run.Plan(g.Seen, g.now)
	if diff := cmp.Diff("[create canary demo-canary with 1 replicas]", fmt.Sprint(second.Actions)); diff != "" || !second.CommitFirst {
		t.Errorf("the second decision (-want +got), commit first %v:\n%s", second.CommitFirst, diff)
	}
	for i, transition := range second.Status.Sluice.Transitions {
		if transition.Seq != int64(i+1) {
			t.Errorf("transition %d has number %d", i, transition.Seq)
		}
	}
}

func TestMoreThanTheOutboxHoldsIsCommittedInTwoParts(t *testing.T) {
	g := aRollout().HeldAt("v2")
	carried := rollout.Decision{Status: *g.Status.DeepCopy(), KubeEvents: []rollout.KubeEvent{{Reason: "Carried"}}}
	p := planner{m: carried.Status.Sluice, c: carried.Status.Common(), now: g.now}
	for range api.MaxTransitions {
		p.enterState(rollout.StateIdle, "Turned", "", "")
	}
	var run Run
	run.CarryStatus(carried)
	d := run.Plan(g.Seen, g.now)
	if diff := cmp.Diff(carried.Status, d.Status); diff != "" || !d.CommitFirst || len(d.Actions) > 0 || len(d.KubeEvents) != 1 {
		t.Errorf("the first part, with %v and %v (-want +got):\n%s", d.Actions, d.KubeEvents, diff)
	}
	run.StatusCommitted()
	g.Status = d.Status
	if d = run.Plan(g.Seen, g.now); d.Status.Sluice.TransitionSeq == g.Status.Sluice.TransitionSeq {
		t.Error("the second part makes no transition")
	}
}

func TestProgressIsWrittenAtMostOnceInFiveSeconds(t *testing.T) {
	g := aRelease().In(rollout.StateUpgrade)
	g.Canary = &rollout.Canary{Ours: true, Epoch: g.Status.Sluice.Epoch, Revision: "v2", Observed: true, Replicas: 1, Updated: 1, Hash: "h2"}
	g.StableService.Hash, g.Status.CurrentStepState = "h1", api.StepUpgrade
	early := Plan(g.Seen, g.now.Add(100*time.Millisecond))
	if diff := cmp.Diff(g.Status, early.Status); diff != "" {
		t.Errorf("progress is written at once (-before +after):\n%s", diff)
	}
	if want := g.now.Add(progressInterval); !early.WakeAt.Equal(want) {
		t.Errorf("it is looked at again at %s, want %s", early.WakeAt, want)
	}
	late := Plan(g.Seen, early.WakeAt)
	if got, want := late.Status.Message, "Rollout is in step(1/3), and upgrade workload to new version: 0 of 1 canary pods are available"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	g.Status = late.Status
	if again := Plan(g.Seen, early.WakeAt); !sameStatus(&g.Status, &again.Status) || !again.WakeAt.IsZero() {
		t.Errorf("with nothing new it is looked at again at %s:\n%s", again.WakeAt, cmp.Diff(g.Status, again.Status))
	}
}

// A user who scales a workload at a pause sees the pods follow within a second.
func TestPodsOfAPausedStepAreShownWithinASecond(t *testing.T) {
	g := aRelease().AtStep(2).Paused().Planned()
	shown := g.Status.CanaryStatus.CanaryReplicas
	g.Canary.Replicas, g.Canary.Updated, g.Canary.Available = shown+3, shown+3, shown+3
	at := writtenAt(g.Status)
	early := Plan(g.Seen, at.Add(settledInterval/2))
	if diff := cmp.Diff(g.Status, early.Status); diff != "" || !early.WakeAt.Equal(at.Add(settledInterval)) {
		t.Errorf("it is looked at again at %s, want %s (-before +after):\n%s", early.WakeAt, at.Add(settledInterval), diff)
	}
	if got := Plan(g.Seen, early.WakeAt).Status.CanaryStatus.CanaryReplicas; got != shown+3 {
		t.Errorf("%d pods are shown, want %d", got, shown+3)
	}
}

func TestWhatHoldsAReleaseIsWrittenAtOnce(t *testing.T) {
	g := aRelease().In(rollout.StateUpgrade)
	g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Unknown: true, Message: "Sluice may not."}}
	d := Plan(g.Seen, g.now.Add(time.Millisecond))
	if d.Status.Message != "Sluice may not." {
		t.Errorf("the message is %q", d.Status.Message)
	}
	g.Status = d.Status
	g.Problems[0].Message = "Sluice may not still."
	if d = Plan(g.Seen, g.now.Add(2*time.Millisecond)); d.Status.Message != "Sluice may not still." {
		t.Errorf("the message is %q", d.Status.Message)
	}
}
