package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// rolling is a change that the workload's own controller carries out, with so many new pods.
func rolling(id string, updated int32) func(*given) {
	return func(g *given) {
		g.Workload.RolloutID, g.Workload.Revision, g.Workload.Updated = id, "v2", updated
		g.Workload.Revisions = []rollout.Revision{
			{Hash: "h1", Revision: "v1", Replicas: 10 - updated, Ready: 10 - updated}, {Hash: "h2", Revision: "v2", Replicas: updated, Ready: updated},
		}
	}
}

// letThrough is rolling under the id of the stable version.
func letThrough(updated int32) func(*given) {
	return func(g *given) {
		g.Workload.IDLetsThrough = true
		rolling("r1", updated)(g)
	}
}

func TestAChangeUnderTheIDOfTheStableVersionIsNoRelease(t *testing.T) {
	known := func(g *given) { g.Workload.RolloutID = "r1"; g.Planned() }
	seized := outcome{State: rollout.StateInitializing, Step: 1, Actions: []string{"hold Deployment demo"}, Message: "Rollout is in Progressing"}
	runPlanCases(t, map[string]planCase{
		"the id of the stable version": {
			aRollout().With(known).With(letThrough(3)), outcome{State: rollout.StateIdle, Step: 3, Message: "rollout is healthy"},
		},
		"the id of the last release, which the stable version does not have": {aRollout().With(known).With(rolling("r1", 3)), seized},
		"another id": {aRollout().With(known).With(rolling("r2", 3)), seized},
		"no id":      {aRollout().With(rolling("", 3)), seized},
	})
}

func TestAVersionThatRollsOutWithoutAStepIsTold(t *testing.T) {
	g := aRollout().With(func(g *given) { g.Workload.RolloutID = "r1" })
	if notes := Plan(g.Planned().Seen, g.now).KubeEvents; len(notes) != 0 {
		t.Errorf("at rest it is told: %v", notes)
	}
	notes := Plan(g.With(letThrough(3)).Seen, g.now).KubeEvents
	if len(notes) != 1 || !notes[0].Warning || notes[0].Reason != "SameRolloutID" || !strings.Contains(notes[0].Message, "rollout-id r1") {
		t.Errorf("it is told: %v", notes)
	}
	if notes := Plan(g.Planned().Seen, g.now).KubeEvents; len(notes) != 0 {
		t.Errorf("it is told again: %v", notes)
	}
}

func TestTheIDOfAVersionIsThatOfTheStableOneWhenItHasSucceeded(t *testing.T) {
	for name, c := range map[string]struct {
		g    *given
		want rollout.StableID
	}{
		"a success":                   {aRelease().AtStep(3).Finalising(api.FinaliseSuccess), rollout.StableIDPresent},
		"the template was taken back": {aRollout().With(func(g *given) { g.Workload.RolloutID = "r2" }).HeldAt("v1"), rollout.StableIDKept},
		"a template under the id of the stable version was taken back": {
			aRollout().With(func(g *given) { g.Workload.RolloutID, g.Workload.IDLetsThrough = "r1", true }).HeldAt("v1"), rollout.StableIDUnknown,
		},
		"adopted at rest":                 {aRollout().With(func(g *given) { g.Workload.Adopted = false }), rollout.StableIDPresent},
		"adopted while another one comes": {aRollout().With(rolling("r2", 3)).With(func(g *given) { g.Workload.Adopted = false }), rollout.StableIDUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			actions, _ := c.g.walk()
			for _, action := range actions {
				var known rollout.StableID
				switch a := action.(type) {
				case rollout.AdoptWorkload:
					known = a.StableID
				case rollout.ResumeWorkload:
					known = a.StableID
				default:
					continue
				}
				if known != c.want {
					t.Errorf("%s: the id of the stable version is %q, want %q", action, known, c.want)
				}
				return
			}
			t.Error("it is neither adopted nor resumed")
		})
	}
}

func TestWhatServesIsKnownAsStableInAChangeThatIsNoRelease(t *testing.T) {
	for updated, want := range map[int32]string{0: "h1", 3: "h1", 6: "h2", 10: "h2"} {
		g := aRollout().With(func(g *given) { g.Workload.RolloutID = "r1"; g.Planned() }).With(letThrough(updated)).Planned()
		if got := g.Status.Sluice.StableRevision; got != want {
			t.Errorf("with %d new pods %s is stable, want %s", updated, got, want)
		}
	}
}

func TestAHeldChangeOfTheIDAloneIsASuccess(t *testing.T) {
	g := aRollout().With(func(g *given) { g.Workload.RolloutID = "r2" }).HeldAt("v1")
	first := Plan(g.Seen, g.now).Status
	last := first.Sluice.Transitions[len(first.Sluice.Transitions)-1]
	if last.Reason != "Success" || !strings.Contains(last.Message, "nothing to release") {
		t.Errorf("it is finalised as %s: %s", last.Reason, last.Message)
	}
	if diff := cmp.Diff([]string{"resume Deployment demo"}, g.settle()); diff != "" {
		t.Error(diff)
	}
	if m, c := g.Status.Sluice, g.Status.CanaryStatus; m.State != string(rollout.StateIdle) || c.ObservedRolloutID != "r2" || c.StableRevision != "h1" {
		t.Errorf("it ends in %s with id %s and stable %s", m.State, c.ObservedRolloutID, c.StableRevision)
	}
}
