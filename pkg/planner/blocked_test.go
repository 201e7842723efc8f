package planner

import (
	"slices"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// forbidden adds a problem with an object that the executor could not read.
func forbidden(route rollout.Ref) func(*given) {
	return func(g *given) {
		g.Problems = append(g.Problems, rollout.Problem{Reason: rollout.ReasonForbidden, Message: "may not read", Unknown: true, Route: route})
		for i := range g.Routes {
			if g.Routes[i].Object == route {
				g.Routes[i] = rollout.Route{Object: route, Missing: true}
			}
		}
	}
}

func TestPlanAdoptsWhatItSeesOfAHalfSeenWorld(t *testing.T) {
	gateway := aRollout().Routes[0].Object
	foreign := func(g *given) { g.Workload.Adopted, g.Workload.HasMarks = false, false }
	runPlanCases(t, map[string]planCase{
		"the workload is adopted although something is not granted": {
			aRollout().With(foreign).With(forbidden(rollout.Ref{})),
			outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"adopt Deployment demo"}, Message: "the workload is being adopted"},
		},
		"the finalizer comes before that": {
			aRollout().With(foreign).With(forbidden(rollout.Ref{})).With(func(g *given) { g.Finalizer = false }),
			outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"add finalizer"}, Message: "the workload is being adopted"},
		},
		"not when another Rollout has it": {
			aRollout().With(foreign).With(forbidden(rollout.Ref{})).With(func(g *given) { g.Workload.AdoptedBy = "other" }),
			outcome{State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"not again after it was refused in this run": {
			aRollout().With(foreign).With(forbidden(rollout.Ref{})).With(func(g *given) { g.Problems[0].FromApply = true }),
			outcome{State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"a gateway object that is not granted holds the release before its first pod": {
			aRollout().HeldAt("v2").With(forbidden(gateway)),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"which can still be called off": {
			aRollout().HeldAt("v2").With(forbidden(gateway)).Planned().RolledBack(),
			outcome{State: rollout.StateFinalising, Step: 1, Actions: []string{"resume Deployment demo"}, Message: canceling},
		},
	})
}

func TestPlanGivesBackWhatItSees(t *testing.T) {
	gateway := aRollout().Routes[0].Object
	other := rollout.Ref{APIVersion: "v1", Kind: "Other", Name: "demo"}
	two := func(g *given) {
		g.Routes = append(g.Routes, g.Routes[0])
		g.Routes[1].Object = other
	}
	runPlanCases(t, map[string]planCase{
		"a step stays where it is": {
			aRelease().AtStep(2).Paused().Approved().With(forbidden(gateway)),
			outcome{State: rollout.StateReady, Step: 2, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"a rollback restores the other routes": {
			aRelease().AtStep(2).Paused().With(two).RolledBack().With(forbidden(gateway)),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore Other demo"}, Message: canceling},
		},
		"and holds at the one that it cannot restore": {
			aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).With(forbidden(gateway)),
			outcome{State: rollout.StateFinalising, Step: 2, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"disabling gives the Service back before it holds": {
			aRelease().AtStep(2).Paused().Disabled().With(forbidden(gateway)),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"unpin Service demo"}, Message: disabling},
		},
		"a route that may not be restored is not given up": {
			aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) {
				g.Status.Sluice.RouteDigest = ""
				g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Message: "may not write", Unknown: true, FromApply: true, Route: gateway}}
			}),
			outcome{State: rollout.StateFinalising, Step: 2, Stalled: rollout.ReasonForbidden, Message: "may not write"},
		},
		"nothing is given back while the workload is not seen": {
			aRelease().AtStep(2).Paused().Deleted().With(func(g *given) { g.Workload = nil }).With(forbidden(rollout.Ref{})),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
	})
}

func TestAHalfSeenRolloutAtRestCanBeDeleted(t *testing.T) {
	gateway := aRollout().Routes[0].Object
	unmarked := func(g *given) { g.Workload.HasMarks = false }
	unread := func(actions ...string) outcome {
		return outcome{State: rollout.StateIdle, Step: 3, Actions: actions, Stalled: rollout.ReasonForbidden, Message: "may not read"}
	}
	runPlanCases(t, map[string]planCase{
		"the workload is let go first": {
			aRollout().Deleted().With(forbidden(rollout.Ref{})), unread("disown Deployment demo"),
		},
		"a held one by what its owner wants": {
			aRollout().HeldAt("v2").Deleted().With(forbidden(rollout.Ref{})), unread("resume Deployment demo"),
		},
		"then the Rollout": {
			aRollout().With(unmarked).Deleted().With(forbidden(rollout.Ref{})), unread("remove finalizer"),
		},
		"one that was never looked at": {
			aRollout().With(unmarked).With(func(g *given) { g.Status = api.RolloutStatus{} }).Deleted().With(forbidden(rollout.Ref{})),
			outcome{State: rollout.StateIdle, Actions: []string{"remove finalizer"}, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
		"whose workload is not seen": {
			aRollout().With(func(g *given) { g.Workload = nil }).Deleted().With(forbidden(rollout.Ref{})), unread("remove finalizer"),
		},
		"but not twice in a run": {
			aRollout().Deleted().With(forbidden(rollout.Ref{})).With(func(g *given) { g.Problems[0].FromApply = true }), unread(),
		},
		"a gateway object that is not granted stands in no way": {
			aRollout().Deleted().With(forbidden(gateway)),
			outcome{State: rollout.StateTerminated, Step: 3, Actions: []string{"disown Deployment demo"}, Message: "Rollout is in terminating"},
		},
		"unless its status is lost and a canary is left": {
			aRelease().AtStep(2).With(func(g *given) { g.Status = api.RolloutStatus{} }).Deleted().With(forbidden(gateway)),
			outcome{State: rollout.StateTerminated, Stalled: rollout.ReasonForbidden, Message: "may not read"},
		},
	})
}

// An object stays as it is if a route that the executor cannot restore may refer to it.
func TestPlanKeepsWhatABlindRouteMayReferTo(t *testing.T) {
	g := aRelease().AtStep(2).Paused()
	g.Spec.Disabled = true
	g.StableService.Hash = "" // the Services are restored before the routes
	rule := rollout.Ref{APIVersion: "networking.istio.io/v1", Kind: "DestinationRule", Name: "demo"}
	g.Routes = []rollout.Route{{Object: rule, Referenced: true, Shaped: true}, {Object: g.Routes[0].Object, Shaped: true}}
	g.Problems = []rollout.Problem{{Reason: rollout.ReasonForbidden, Message: "may not write", Unknown: true, Route: g.Routes[1].Object}}
	o := g.outcome()
	if slices.ContainsFunc(o.Actions, func(a string) bool { return strings.Contains(a, "restore") }) || o.Stalled != rollout.ReasonForbidden {
		t.Errorf("a subset that is still referred to is taken away: %+v", o)
	}
}
