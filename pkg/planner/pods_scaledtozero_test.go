package planner

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// scaledToZero is a release in place whose workload has no pods any more. Its ReplicaSets of v5 and v2 are newer than the stable ReplicaSet of v1.
func scaledToZero() *given {
	return replacing(2, 0, 0, 0).With(func(g *given) {
		g.Workload.DesiredReplicas = 0
		g.Workload.Revisions = []rollout.Revision{
			{Hash: "h0", Revision: "v0", CreationOrder: 0}, {Hash: "h5", Revision: "v5", CreationOrder: 2}, {Hash: "h1", Revision: "v1", CreationOrder: 1}, {Hash: "h2", Revision: "v2", CreationOrder: 3, Unavailable: true},
		}
	})
}

// without removes revisions of the workload.
func (g *given) without(hashes ...string) *given {
	var sets []rollout.Revision
	for _, set := range g.Workload.Revisions {
		gone := false
		for _, hash := range hashes {
			gone = gone || set.Hash == hash
		}
		if !gone {
			sets = append(sets, set)
		}
	}
	g.Workload.Revisions = sets
	return g
}

func TestPlanScaledToZeroAndBack(t *testing.T) {
	t.Parallel()
	const (
		empty = "waiting for the workload to have replicas: it is scaled to 0, so there is nothing to release"
		back  = "waiting for the controller of Deployment demo to bring its pods back"
	)
	running := func(g *given) { g.Workload.Paused = false }
	runPlanCases(t, map[string]planCase{
		"what would come back before the stable version goes": {
			scaledToZero(), outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"delete h5 of Deployment demo", "delete h2 of Deployment demo"}},
		},
		"then it waits": {scaledToZero().without("h2", "h5"), outcome{State: rollout.StateUpgrade, Step: 2, Message: empty}},
		"what goes already is left alone": {
			scaledToZero().without("h5").With(func(g *given) { g.Workload.Revisions[2].Deleting = true }), outcome{State: rollout.StateUpgrade, Step: 2, Message: empty},
		},
		"its controller is stopped first": {
			scaledToZero().With(running), outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"hold Deployment demo"}},
		},
		"and must have seen that": {
			scaledToZero().With(func(g *given) { g.Workload.Observed = false }), outcome{State: rollout.StateUpgrade, Step: 2, Message: empty},
		},
		"a version whose pods are still being taken away stays until then": {
			scaledToZero().without("h5").With(func(g *given) { g.Workload.Revisions[2].Replicas = 1 }), outcome{State: rollout.StateUpgrade, Step: 2, Message: empty},
		},
		"without the stable version there is nothing to come back to": {
			scaledToZero().without("h1"), outcome{State: rollout.StateUpgrade, Step: 2, Message: empty},
		},
		"a paused Rollout comes back as the stable version, too": {
			scaledToZero().without("h5").With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout has been paused, you can resume it by kube-cli", Actions: []string{"delete h2 of Deployment demo"}},
		},
		"and so does a release that was aborted": {
			scaledToZero().without("h5").With(func(g *given) { g.Status.Sluice.FinaliseReason = api.FinaliseAborted }).In(rollout.StateAborted),
			outcome{State: rollout.StateAborted, Step: 2, Actions: []string{"delete h2 of Deployment demo"}, Message: "Stopped at the release was aborted. " + rollout.TrafficUnready + " " +
				"Release another version, roll the workload back, or try again: sluice retry demo -n shop"},
		},
		"a canary stays, and what would come back of the workload goes": {
			aRelease().AtStep(2).Paused().With(func(g *given) {
				g.Workload.DesiredReplicas = 0
				g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", CreationOrder: 0}, {Hash: "h5", Revision: "v5", CreationOrder: 1}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"delete h5 of Deployment demo"}},
		},
		"the traffic leaves pods that are gone": {
			scaledToZero().without("h2", "h5").With(func(g *given) { g.Routes[0].Shaped, g.Status.Sluice.RouteDigest = true, "d2" }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"restore VirtualService demo"}},
		},
		"scaled up, the stable pods come first": {
			scaledToZero().without("h2", "h5").With(func(g *given) { g.Workload.DesiredReplicas = 10 }), outcome{State: rollout.StateUpgrade, Step: 2, Message: back},
		},
		"then the new ones": {
			scaledToZero().without("h2", "h5").With(func(g *given) { g.Workload.DesiredReplicas, g.Workload.Revisions[1].Replicas = 10, 10 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"let Deployment demo replace pods: 20% and 1 more"}},
		},
		"new pods beside stable ones come when no traffic waits for them": {
			besideStable(2, 0, 0).With(func(g *given) { g.Routes[0].Shaped, g.Status.Sluice.RouteDigest = true, "d2" }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in Progressing", Actions: []string{"restore VirtualService demo"}},
		},
	})
}

// The stable Service stays narrowed. If a user scales up before the executor has observed the workload, new pods come, and they must not get all
// traffic.
func TestTheStableServiceStaysNarrowedAtZero(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*given{
		"at 0": scaledToZero(), "on its way back": scaledToZero().With(func(g *given) { g.Workload.DesiredReplicas = 10 }),
	} {
		for range 3 {
			for _, a := range Plan(g.Seen, g.now).Actions {
				if _, ok := a.(rollout.UnpinService); ok {
					t.Errorf("%s: %s", name, a)
				}
			}
			g.Planned().After(time.Second)
		}
	}
}

// A rejected version may keep pods a little longer than the stable version when a user scales the workload to 0.
func TestARejectedVersionStaysOutOfTheStableServiceAtZero(t *testing.T) {
	t.Parallel()
	g := scaledToZero().With(func(g *given) {
		g.Workload.Revision, g.Workload.Total, g.Workload.Updated, g.Workload.Revisions[3].Replicas = "v1", 1, 0, 1
	}).Finalising(api.FinaliseRollback)
	if p := newPlanner(g.Seen, g.now); p.rejectedGone() {
		t.Error("the stable Service is opened to its last pod")
	}
}
