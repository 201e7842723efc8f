package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// told returns the transitions that a decision adds, without numbers and times.
func told(g *given, d rollout.Decision) (list []api.Transition) {
	for _, t := range d.Status.Sluice.Transitions {
		if t.Seq > g.Status.Sluice.TransitionSeq {
			t.Seq, t.Time = 0, api.Transition{}.Time
			list = append(list, t)
		}
	}
	return list
}

func TestAHoldIsToldWhenItBeginsChangesAndEnds(t *testing.T) {
	g := aRelease().AtStep(2).Paused().Planned()
	since := g.Status.Sluice.Since
	forbidden := rollout.Problem{Reason: rollout.ReasonForbidden, Message: "Sluice may not; grant it."}
	for _, step := range []struct {
		what    string
		problem *rollout.Problem
		want    []api.Transition
	}{
		{"nothing holds it", nil, nil},
		{"it begins", &forbidden, []api.Transition{{From: "StepPaused", To: "Stalled", Step: 2, Traffic: "50%", Reason: "Forbidden", Message: "Sluice may not; grant it."}}},
		{"it goes on", &forbidden, nil},
		{"it is another one", &rollout.Problem{Reason: rollout.ReasonScriptMissing, Message: "Add it."},
			[]api.Transition{{From: "StepPaused", To: "Stalled", Step: 2, Traffic: "50%", Reason: "ScriptMissing", Message: "Add it."}}},
		{"it says something else", &rollout.Problem{Reason: rollout.ReasonScriptMissing, Message: "Add it soon."},
			[]api.Transition{{From: "StepPaused", To: "Stalled", Step: 2, Traffic: "50%", Reason: "ScriptMissing", Message: "Add it soon."}}},
		{"it ends", nil, []api.Transition{{From: "Stalled", To: "StepPaused", Step: 2, Traffic: "50%", Reason: "ScriptMissing", Message: "ScriptMissing is resolved"}}},
		{"nothing holds it any more", nil, nil},
	} {
		g.Problems = nil
		if step.problem != nil {
			g.Problems = []rollout.Problem{*step.problem}
		}
		g.now = g.now.Add(time.Second)
		d := Plan(g.Seen, g.now)
		if diff := cmp.Diff(step.want, told(g, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
		g.Status = d.Status
	}
	if g.Status.Sluice.State != string(rollout.StatePaused) || !g.Status.Sluice.Since.Equal(since) {
		t.Errorf("the machine has moved: %s since %s, want StepPaused since %s", g.Status.Sluice.State, g.Status.Sluice.Since, since)
	}
}

func TestRestoredTrafficIsToldOnce(t *testing.T) {
	g := aRelease().AtStep(2).Paused().Planned()
	g.Workload.Revision = "v1" // rolled back
	g.settle()
	count := 0
	for _, transition := range g.Status.Sluice.Transitions {
		if transition.To == string(rollout.StateTrafficRestored) {
			count++
			if transition.From != string(rollout.StateFinalising) {
				t.Errorf("it was told in %s", transition.From)
			}
		}
	}
	if count != 1 {
		t.Errorf("it was told %d times in %+v", count, g.Status.Sluice.Transitions)
	}
}

// The status at the end of a release depends on its transitions, and no remark may hide them.
func TestAHoldDuringTheEndHidesNothing(t *testing.T) {
	g := aRelease().AtStep(2).Paused().Planned()
	g.Workload.Revision = "v1"
	g.Planned()
	before := *g.Status.CanaryStatus
	message := g.Status.Conditions[0].Message
	g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Unknown: true, Route: g.Routes[0].Object, Message: "Sluice may not."}}
	g.Planned()
	if last := g.Status.Sluice.Transitions[len(g.Status.Sluice.Transitions)-1]; last.To != string(rollout.StateStalled) {
		t.Fatalf("it is not held: %+v", last)
	}
	g.After(2 * progressInterval).Planned()
	if diff := cmp.Diff(before.CurrentStepState, g.Status.CanaryStatus.CurrentStepState); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(message, g.Status.Conditions[0].Message); diff != "" {
		t.Error(diff)
	}
}

// A walk that fills the outbox leaves room for the end of a hold.
func TestAHoldThatEndsWithALongWalkPushesNothingOut(t *testing.T) {
	g := aRelease().AtStep(1).With(func(g *given) {
		for i := range g.Spec.Steps {
			g.Spec.Steps[i].Replicas, g.Spec.Steps[i].Manual = rollout.Amount{Value: 1}, false
			for n := range g.Routes[0].Steps {
				g.Routes[0].Steps[n] = rollout.Rendering{Applied: true, Accepted: true}
			}
		}
	}).replanned()
	p := newPlanner(g.Seen, g.now)
	p.setCondition(api.ConditionStalled, "True", rollout.ReasonForbidden, "Sluice may not.")
	g.Status = p.status
	d := Plan(g.Seen, g.now)
	if made, kept := d.Status.Sluice.TransitionSeq-g.Status.Sluice.TransitionSeq, len(told(g, d)); made != api.MaxTransitions || kept != int(made) {
		t.Errorf("%d transitions were made and %d are kept, want %d", made, kept, api.MaxTransitions)
	}
}

func TestWhatTurnedAnEarlierReleaseAsideIsNotToldOfThisOne(t *testing.T) {
	turned := api.Transition{From: string(rollout.StatePaused), To: string(rollout.StateFinalising), Message: "rolled back by alice"}
	remark := api.Transition{From: string(rollout.StateFinalising), To: string(rollout.StateTrafficRestored)}
	begun := api.Transition{From: string(rollout.StateIdle), To: string(rollout.StateInitializing), Message: "a new version of the workload is held"}
	const unknown = "Rollout progressing has been canceled"
	for sentence, test := range map[string]struct {
		outbox []api.Transition
		want   string
	}{
		"the last change tells":          {[]api.Transition{turned}, "rolled back by alice"},
		"a remark after it is no change": {[]api.Transition{turned, remark}, "rolled back by alice"},
		"another release has begun":      {[]api.Transition{turned, begun}, unknown},
		"the outbox is empty":            {nil, unknown},
	} {
		if got := (&planner{m: &api.SluiceStatus{Transitions: test.outbox}}).interruptionMessage(); got != test.want {
			t.Errorf("%s: it says %q, want %q", sentence, got, test.want)
		}
	}
}
