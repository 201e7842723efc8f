package planner

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// asking is a Rollout that names a TrafficRouting in the given state.
func (g *given) asking(is rollout.TrafficRouting) *given {
	g.Spec.TrafficRouting, g.TrafficRouting = "gray", &is
	return g
}

// asked is a TrafficRouting that routes for the release.
var asked = rollout.TrafficRouting{Claimed: true, Applied: true}

func (g *given) alone() *given { g.TrafficRouting = nil; return g }

func TestPlanAsksForATrafficRouting(t *testing.T) {
	t.Parallel()
	const missing = "; create it again, or take its name out of the Rollout (trafficRoutingRef, or the annotation rollouts.kruise.io/trafficrouting): kubectl get trafficroutings -n shop"
	runPlanCases(t, map[string]planCase{
		"at rest it is told that there is none": {
			aRollout().asking(rollout.TrafficRouting{}).alone(), outcome{State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonTrafficRoutingMissing, Message: "TrafficRouting gray does not exist" + missing},
		},
		"no release begins without it": {
			aRelease().In(rollout.StateInitializing).asking(rollout.TrafficRouting{}).alone().replan(),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonTrafficRoutingMissing, Message: "TrafficRouting gray does not exist" + missing},
		},
		"nor while it is being deleted": {
			aRelease().In(rollout.StateInitializing).asking(rollout.TrafficRouting{Deleting: true}).replan(),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonTrafficRoutingMissing, Message: "TrafficRouting gray is being deleted" + missing},
		},
		"it is asked for when the pods of the first step are ready": {
			aRelease().AtStep(1).In(rollout.StateTrafficRouting).asking(rollout.TrafficRouting{Inactive: true}),
			outcome{State: rollout.StateTrafficRouting, Step: 1, Actions: []string{"claim TrafficRouting gray"}, Message: "Rollout is in Progressing"},
		},
		"and not while it takes the routes of another release back": {
			aRelease().AtStep(1).In(rollout.StateTrafficRouting).asking(rollout.TrafficRouting{Finalizing: true, Message: "x"}),
			outcome{State: rollout.StateTrafficRouting, Step: 1, Message: "waiting for TrafficRouting gray, which takes the routes of an earlier release back: x"},
		},
		"the step waits until it is applied": {
			aRelease().AtStep(1).In(rollout.StateTrafficRouting).asking(rollout.TrafficRouting{Claimed: true, Message: "asked for by Rollout demo, being applied"}),
			outcome{State: rollout.StateTrafficRouting, Step: 1, Message: "waiting for TrafficRouting gray to be applied: asked for by Rollout demo, being applied"},
		},
		"and then goes on": {
			aRelease().AtStep(2).In(rollout.StateTrafficRouting).asking(asked), outcome{State: rollout.StatePaused, Step: 2, Message: confirm2},
		},
		"a release whose TrafficRouting is deleted is held": {
			aRelease().AtStep(2).Paused().asking(rollout.TrafficRouting{Claimed: true, Deleting: true}),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonTrafficRoutingMissing, Message: "TrafficRouting gray is being deleted" + missing},
		},
		"a rollback frees it before anything of its own": {
			aRelease().AtStep(2).asking(asked).RolledBack().Finalising(api.FinaliseRollback),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"release TrafficRouting gray"}, Message: "Rollout progressing has been canceled"},
		},
		"and waits for its routes to go, without which its pods would": {
			aRelease().AtStep(2).asking(rollout.TrafficRouting{Message: "x"}).RolledBack().Finalising(api.FinaliseRollback),
			outcome{State: rollout.StateFinalising, Step: 2, Message: "waiting for TrafficRouting gray to take its routes back: x"},
		},
		"but not for what others ask of it": {
			aRelease().AtStep(2).asking(rollout.TrafficRouting{Inactive: true}).RolledBack().Finalising(api.FinaliseRollback),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout progressing has been canceled"},
		},
		"a Rollout at rest asks for nothing": {
			aRollout().asking(asked), outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"release TrafficRouting gray"}, Message: "rollout is healthy"},
		},
		"nor does one that is disabled": {
			aRollout().asking(asked).Disabled(), outcome{State: rollout.StateDisabled, Step: 3, Actions: []string{"release TrafficRouting gray"}, Message: "Rollout is disabled"},
		},
		"nor one that is deleted": {
			aRollout().asking(asked).Deleted(), outcome{State: rollout.StateTerminated, Step: 3, Actions: []string{"release TrafficRouting gray"}, Message: "Rollout is in terminating"},
		},
	})
}

// Requests on their way through a TrafficRouting get its grace period, or the longer one of the release's own routing.
func TestTheGracePeriodOfATrafficRoutingIsKept(t *testing.T) {
	t.Parallel()
	g := aRelease().AtStep(2).asking(rollout.TrafficRouting{Inactive: true, Grace: 9 * time.Second}).RolledBack().Finalising(api.FinaliseRollback)
	for i := range g.Routes {
		g.Routes[i].Shaped = false
	}
	d := Plan(g.Seen, g.now)
	if until := d.Status.Sluice.GraceUntil; until == nil || !until.Time.Equal(g.now.Add(9*time.Second).Truncate(time.Microsecond)) {
		t.Errorf("the grace period ends at %v, and it is %v", until, g.now)
	}
}

// If the executor claimed a TrafficRouting before the commit, its routes would end without a grace period.
func TestAskingForATrafficRoutingIsCommittedFirst(t *testing.T) {
	t.Parallel()
	g := aRelease().AtStep(1).In(rollout.StateTrafficRouting).asking(rollout.TrafficRouting{Inactive: true})
	g.Status.Sluice.RouteDigest = ""
	if d := Plan(g.Seen, g.now); !d.CommitFirst || d.Status.Sluice.RouteDigest == "" {
		t.Errorf("commit first: %t, with the digest %q", d.CommitFirst, d.Status.Sluice.RouteDigest)
	}
}
