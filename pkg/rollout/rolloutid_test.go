package rollout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rolling is a change that the workload's own controller carries out, with so many new pods.
func rolling(id string, updated int32) func(*given) {
	return func(g *given) {
		g.Workload.RolloutID, g.Workload.Revision, g.Workload.Updated = id, "v2", updated
		g.Workload.Sets = []ReplicaSet{
			{Hash: "h1", Revision: "v1", Replicas: 10 - updated, Ready: 10 - updated}, {Hash: "h2", Revision: "v2", Replicas: updated, Ready: updated},
		}
	}
}

func TestAChangeUnderTheIDOfTheLastReleaseIsNone(t *testing.T) {
	known := func(g *given) { g.Workload.RolloutID = "r1"; g.Planned() }
	runPlanCases(t, map[string]planCase{
		"the same id": {
			aRollout().With(known).With(rolling("r1", 3)), outcome{State: StateIdle, Step: 3, Message: "rollout is healthy"},
		},
		"another id": {
			aRollout().With(known).With(rolling("r2", 3)),
			outcome{State: StateInitializing, Step: 1, Actions: []string{"hold Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"no id": {
			aRollout().With(rolling("", 3)),
			outcome{State: StateInitializing, Step: 1, Actions: []string{"hold Deployment demo"}, Message: "Rollout is in Progressing"},
		},
	})
}

func TestWhatServesIsKnownAsStableInAChangeThatIsNoRelease(t *testing.T) {
	for updated, want := range map[int32]string{0: "h1", 3: "h1", 6: "h2", 10: "h2"} {
		g := aRollout().With(func(g *given) { g.Workload.RolloutID = "r1"; g.Planned() }).With(rolling("r1", updated)).Planned()
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
	if m, c := g.Status.Sluice, g.Status.CanaryStatus; m.State != string(StateIdle) || c.ObservedRolloutID != "r2" || c.StableRevision != "h1" {
		t.Errorf("it ends in %s with id %s and stable %s", m.State, c.ObservedRolloutID, c.StableRevision)
	}
}
