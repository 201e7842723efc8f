package planner

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// astray makes the stable pods unreachable for the stable Service.
func astray(g *given) {
	g.Stable = &rollout.Selected{Pods: map[string]rollout.Endpoints{"h1": {UnreachableReason: "its selector app=demo,tier=front does not match them"}}}
}

func unreadyStable(g *given) {
	g.Workload.Revisions[0].Ready, g.Workload.Available = 0, 0
	g.Stable = selected("h1", 0)
}

const (
	unreachable = "Service demo reaches no ready pod of the stable version, because its selector app=demo,tier=front does not match them, so that requests to it fail; " +
		"correct the Service: kubectl edit service demo -n shop; or accept that with spec.strategy.allowUnreachableStable: true"
	lateEndpoints = "waiting for endpoints of Service demo: no pod of the stable version is ready there"
)

func TestNoStepBeginsBeforeTheStableServiceReachesTheStableVersion(t *testing.T) {
	accepted := func(g *given) { g.Spec.AllowUnreachable = true }
	held := func(state rollout.State, step int32) outcome {
		return outcome{State: state, Step: step, Stalled: rollout.ReasonStableUnreachable, Message: unreachable}
	}
	runPlanCases(t, map[string]planCase{
		"before the first pod":          {aRollout().HeldAt("v2").With(astray), held(rollout.StateInitializing, 1)},
		"unless its owner accepts that": {aRollout().HeldAt("v2").With(astray).With(accepted), outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service demo to h1"}, Message: "Rollout is in Progressing"}},
		"endpoints that are late are waited for": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Stable = selected("h1", 0) }), outcome{State: rollout.StateInitializing, Step: 1, Message: lateEndpoints},
		},
		"and so are those that nobody looked at": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Stable = nil }), outcome{State: rollout.StateInitializing, Step: 1, Message: lateEndpoints},
		},
		"but not for ever": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Stable = selected("h1", 0) }).Planned().After(endpointsLate),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonStableUnreachable, Message: "Service demo reaches no ready pod of the stable version, because its EndpointSlices list none of them as ready, " +
				"so that requests to it fail; correct the Service: kubectl edit service demo -n shop; or accept that with spec.strategy.allowUnreachableStable: true"},
		},
		"in a step they are waited for": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Stable = selected("h1", 0) }),
			outcome{State: rollout.StatePaused, Step: 2, Message: lateEndpoints + "; to go on all the same, set spec.strategy.allowUnreachableStable: true"},
		},
		"a version that served lately mends the Service": {
			aRollout().With(func(g *given) { g.Spec.RollbackWindow, g.Status.Sluice.RecentRevisions = 1, []string{"v1", "v2"} }).HeldAt("v2").With(astray),
			outcome{State: rollout.StateFinalising, Step: 1, Actions: []string{"resume Deployment demo"}, Message: "Rollout has been completed and some closing work is being done"},
		},
		"steps that route nothing narrow no Service": {
			aRollout().With(func(g *given) {
				g.Spec.Steps = []rollout.Step{{Replicas: rollout.Amount{Value: 1}, Manual: true}}
				g.replan()
			}).HeldAt("v2").With(astray),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create canary demo-canary with 1 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a broken stable version does not hold what may mend it": {
			aRollout().HeldAt("v2").With(unreadyStable).With(astray),
			outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service demo to h1"}, Message: "Rollout is in Progressing"},
		},
		"and the step says that it is broken": {
			aRelease().AtStep(2).Paused().With(unreadyStable),
			outcome{State: rollout.StatePaused, Step: 2, Message: confirm2 + "; no pod of the stable version is ready"},
		},
		"a step that was approved":          {aRelease().AtStep(2).Paused().Approved().With(astray), held(rollout.StateReady, 2)},
		"a step that is about to make pods": {aRelease().With(func(g *given) { g.StableService.Hash = "h1" }).With(astray), held(rollout.StateBeforeUpgrade, 1)},
		"a step whose pods are not there":   {aRelease().AtStep(2).With(astray), held(rollout.StateUpgrade, 2)},
		"a step that is about to be routed": {aRelease().AtStep(2).In(rollout.StateTrafficRouting).With(astray), held(rollout.StateTrafficRouting, 2)},
		"nor does a gateway get more meanwhile": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.unrouted() }).With(astray), held(rollout.StatePaused, 2),
		},
		"pods of the canary that are lost come back meanwhile": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary.Replicas = 4 }).With(astray),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale canary demo-canary to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a rollback takes the traffic back all the same": {
			aRelease().AtStep(2).Paused().RolledBack().With(astray),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "The workload has been rolled back and the rollout process will be canceled"},
		},
		"a Service that both versions share is not looked at": {
			aRollout().With(func(g *given) { g.Spec.Routing[0].CanaryService = "demo"; g.replan() }).HeldAt("v2").With(func(g *given) { g.Stable = nil }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create canary demo-canary with 1 replicas"}, Message: "Rollout is in Progressing"},
		},
	})
}

func TestPodsOfOthersKeepTheirRequests(t *testing.T) {
	beside := func(names ...string) func(*given) { return func(g *given) { g.Stable.Others = names } }
	dropped := "Service demo selects pods of other workloads as well, which would get no requests through it during the release: api-1, api-2, api-3 and 1 more; " +
		"give Deployment demo a Service of its own: kubectl edit service demo -n shop; or accept that with spec.strategy.allowDroppedEndpoints: true"
	narrowed := outcome{State: rollout.StateBeforeUpgrade, Step: 1, Actions: []string{"pin Service demo to h1"}, Message: "Rollout is in Progressing"}
	runPlanCases(t, map[string]planCase{
		"before the first pod": {
			aRollout().HeldAt("v2").With(beside("api-1", "api-2", "api-3", "api-4")), outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonEndpointsDropped, Message: dropped},
		},
		"unless its owner accepts that": {
			aRollout().HeldAt("v2").With(beside("api-1")).With(func(g *given) { g.Spec.AllowDropped = true }), narrowed,
		},
		"a Service that somebody has opened in the middle is not narrowed again": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.StableService.Hash = "" }).With(beside("api-1", "api-2", "api-3", "api-4")),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonEndpointsDropped, Message: dropped},
		},
		"one that is narrowed selects no others, whatever its endpoints show still": {
			aRelease().AtStep(2).Paused().With(beside("api-1")), outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
	})
}

// An abort restores the routes regardless of the pods behind the stable Service, and says where requests go.
func TestWhereRequestsGoAfterAnAbort(t *testing.T) {
	t.Parallel()
	g := aRelease().AtStep(2).Paused()
	g.Spec.AbortDelay = time.Minute
	g.Status.Command = &api.Command{Action: api.CommandAbort, Epoch: g.Status.Sluice.Epoch, Actor: "kim"}
	g.Planned()
	says := func(traffic string) {
		t.Helper()
		got := Plan(g.Seen, g.now)
		for _, c := range got.Status.Conditions {
			if c.Type == api.ConditionProgressing && !strings.HasPrefix(c.Message, "Stopped at step 2 of 3: aborted by kim. "+traffic+" Release another version") {
				t.Errorf("the condition says %q, want %q", c.Message, traffic)
			}
		}
		g.Status = got.Status
		g.After(6 * time.Second)
	}
	says(rollout.TrafficStable)
	g.unrouted()
	says(rollout.TrafficStable)
	astray(g)
	says(rollout.TrafficUnserved)
	if o, want := g.outcome(), strings.TrimSuffix(unreachable, "; or accept that with spec.strategy.allowUnreachableStable: true"); o.Stalled != rollout.ReasonStableUnreachable || o.Message != want {
		t.Errorf("it shows as %+v", o)
	}
	g.Spec.AllowUnreachable = true
	if o := g.outcome(); o.Stalled != "" {
		t.Errorf("what its owner accepts shows as %+v", o)
	}
	service := g.StableService
	g.StableService = nil
	says(rollout.TrafficUnserved)
	g.StableService, g.Spec.AllowUnreachable = service, false
	unreadyStable(g)
	says(rollout.TrafficUnready)
	g.Workload.Revisions[0].Ready, g.Stable = 10, selected("h1", 10)
	says(rollout.TrafficStable)
}
