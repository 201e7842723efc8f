package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// behindTwo routes with two Services, each with a gateway object of its own.
func (g *given) behindTwo() *given {
	g.Spec.Routing = byTwoServices()
	g.Backends = []rollout.Backend{{StableService: &rollout.Service{UID: "s"}, Stable: selected("h1", 10)}, {StableService: &rollout.Service{UID: "g"}, Stable: selected("h1", 10)}}
	g.Backend = &g.Backends[0]
	g.replan().unrouted()
	g.Status = Plan(g.Seen, g.now).Status
	return g
}

// releaseBehindTwo is a release of v2 that is about to begin its first step.
func releaseBehindTwo() *given {
	return aRollout().behindTwo().HeldAt("v2").Planned().In(rollout.StateBeforeUpgrade)
}

func TestPlanRoutesByEveryService(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"both stable Services are pinned first": {
			aRollout().behindTwo().HeldAt("v2"),
			outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service demo to h1", "pin Service grpc to h1"}, Message: "Rollout is in Progressing"},
		},
		"there are no new pods as long as one selects all versions": {
			releaseBehindTwo().With(func(g *given) { g.StableService.Hash = "h1" }),
			outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service grpc to h1"}, Message: "Rollout is in Progressing"},
		},
		"both canary Services come after the pods": {
			releaseBehindTwo().AtStep(1).With(func(g *given) { g.Backends[0].CanaryService, g.Backends[1].CanaryService = nil, nil }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create Service demo-canary selecting hc", "create Service grpc-canary selecting hc"}, Message: "Rollout is in Progressing"},
		},
		"the endpoints of each are waited for before anything is routed": {
			releaseBehindTwo().AtStep(2).With(func(g *given) { g.unrouted(); g.Backends[1].CanaryEndpoints = 4 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for endpoints of Service grpc-canary: 4 of 5 are ready"},
		},
		"a Service that both versions share is neither pinned nor copied": {
			releaseBehindTwo().AtStep(2).With(func(g *given) {
				g.Spec.Routing[1].CanaryService, g.Backends[1] = "grpc", rollout.Backend{StableService: &rollout.Service{}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"the step is routed on all gateway objects": {
			releaseBehindTwo().AtStep(2).With(func(g *given) { g.unrouted() }).In(rollout.StateTrafficRouting),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Actions: []string{"route step 2 on VirtualService demo", "route step 2 on Route grpc"}, Message: "Rollout is in Progressing"},
		},
		"the step is not reached before the last gateway has accepted it": {
			releaseBehindTwo().AtStep(2).With(func(g *given) { g.Routes[1].Steps[2] = rollout.Rendering{Applied: true} }),
			outcome{State: rollout.StateTrafficRouting, Step: 2, Message: "waiting for the gateway to accept Route grpc"},
		},
		"one Service that is missing holds the release": {
			aRollout().behindTwo().HeldAt("v2").With(func(g *given) { g.Backends[1].StableService = nil }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonServiceMissing,
				Message: "Service grpc does not exist; create it, or name the Service of the workload in trafficRoutings[].service: kubectl get services -n shop",
			},
		},
		"one gateway object that is missing holds the release": {
			aRollout().behindTwo().HeldAt("v2").With(func(g *given) { g.Routes[1].Missing = true }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonRouteMissing,
				Message: "Route grpc does not exist; create it, or correct customNetworkRefs: kubectl get route -n shop",
			},
		},
		"one canary Service of somebody else holds the release": {
			aRollout().behindTwo().HeldAt("v2").With(func(g *given) { g.Backends[1].CanaryService = &rollout.Service{} }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonNameConflict,
				Message: "Service grpc-canary exists and is not ours; rename or delete it, the release needs this name for its canary: kubectl delete service grpc-canary -n shop",
			},
		},
	})
}

func TestEveryWayOutCleansUpEveryServiceInItsOrder(t *testing.T) {
	for name, c := range map[string]struct {
		given *given
		want  []string
	}{
		"success": {releaseBehindTwo().AtStep(3).Paused().Approved(), []string{
			"unpin Service demo", "unpin Service grpc", "restore Route grpc", "restore VirtualService demo", "delete Service demo-canary", "delete Service grpc-canary",
			"resume Deployment demo", "delete canary demo-canary",
		}},
		"rollback": {releaseBehindTwo().AtStep(2).Paused().RolledBack(), []string{
			"restore Route grpc", "restore VirtualService demo", "resume Deployment demo", "delete canary demo-canary",
			"unpin Service demo", "unpin Service grpc", "delete Service demo-canary", "delete Service grpc-canary",
		}},
		"success, half of which is done": {releaseBehindTwo().AtStep(3).Finalising(api.FinaliseSuccess).With(func(g *given) {
			g.StableService.Hash, g.CanaryService = "", nil
			g.route(g.Routes[1].Object, 0)
		}), []string{
			"unpin Service grpc", "restore VirtualService demo", "delete Service grpc-canary", "resume Deployment demo", "delete canary demo-canary",
		}},
		"rollback while one canary Service takes its time": {releaseBehindTwo().AtStep(2).Finalising(api.FinaliseRollback).RolledBack().With(func(g *given) {
			g.Canary, g.Workload.Held, g.Workload.Paused, g.Workload.Updated = nil, false, false, 10
			g.CanaryService.Deleting = true
		}), []string{"restore Route grpc", "restore VirtualService demo", "unpin Service demo", "unpin Service grpc", "delete Service grpc-canary"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.given.settle()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Traffic may be on its way through each of the Services, and some gateways are slow.
func TestTheLongestGraceIsSpent(t *testing.T) {
	for name, c := range map[string]struct {
		asked [2]time.Duration
		lag   time.Duration
		want  time.Duration
	}{
		"the first's":                         {asked: [2]time.Duration{7 * time.Second, 0}, want: 7 * time.Second},
		"the last's":                          {asked: [2]time.Duration{0, 7 * time.Second}, want: 7 * time.Second},
		"a slow gateway's where nobody asked": {asked: [2]time.Duration{rollout.DefaultGrace, rollout.DefaultGrace}, lag: 5 * time.Second, want: 5 * time.Second},
		"what was asked for, whatever the gateway does": {asked: [2]time.Duration{rollout.DefaultGrace, time.Second}, lag: 5 * time.Second, want: rollout.DefaultGrace},
	} {
		g := releaseBehindTwo().AtStep(2).RolledBack()
		g.Spec.Routing[0].Grace, g.Spec.Routing[1].Grace = c.asked[0], c.asked[1]
		g.replan().Finalising(api.FinaliseRollback)
		for i, r := range g.Routes {
			g.route(r.Object, 0)
			if i == len(g.Routes)-1 {
				g.Routes[i].Lag = c.lag
			}
		}
		g.Workload.Held, g.Workload.Paused, g.Workload.Updated = false, false, 10
		if d := Plan(g.Seen, g.now); !d.WakeAt.Equal(g.now.Add(c.want)) || len(d.Actions) > 0 {
			t.Errorf("%s: %v, and again at %s; want %s", name, d.Actions, d.WakeAt.Sub(g.now), c.want)
		}
	}
}

// Another client's writes to one gateway object change neither the other object nor the step of the release.
func TestOneRouteInConflictHoldsTheRelease(t *testing.T) {
	g := releaseBehindTwo().AtStep(2).Paused()
	g.Routes[1].Foreign, g.Routes[1].ForeignBy = "theirs", "argocd"
	for n := range 3 {
		g.Routes[1].Version = string(rune('a' + n))
		g.Routes[1].Steps[2] = rollout.Rendering{Digest: "d2"}
		g.Status = Plan(g.Seen, g.now).Status
	}
	got := g.Approved().outcome()
	if got.Stalled != rollout.ReasonRouteConflict || len(got.Actions) > 0 || got.Step != 2 {
		t.Errorf("got %+v", got)
	}
}

// A release that another version of the executor began continues at its step.
func TestPlansKeepTheirHashes(t *testing.T) {
	bare, two := demoSpec(rollout.Step{Replicas: rollout.Amount{Value: 1}}), demoSpec(rollout.Step{Replicas: rollout.Amount{Value: 1}})
	bare.Routing, two.Routing = nil, byTwoServices()
	for name, c := range map[string]struct {
		spec rollout.Spec
		want string
	}{
		"with one Service":  {demoSpec(rollout.Step{Replicas: rollout.Amount{Value: 1}}), "c160ee18a59b5dc1"},
		"without a Service": {bare, "c37cadd4d4a20b60"},
		"with two Services": {two, "b9ff2e0b06c44bb7"},
	} {
		if got := rollout.PlanHash(c.spec); got != c.want {
			t.Errorf("%s: the hash is %s, not %s", name, got, c.want)
		}
	}
}
