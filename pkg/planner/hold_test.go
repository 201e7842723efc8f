package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestPlanHolds(t *testing.T) {
	foreignCanary := "Deployment demo-canary exists and is not ours; rename or delete it, the release needs this name for its canary: kubectl delete deployment demo-canary -n shop"
	const unsupported = "This version of Sluice does not carry out step[0].mirror yet, so the release is held; "
	runPlanCases(t, map[string]planCase{
		"a Rollout without a workload": {
			aRollout().With(func(g *given) { g.Workload = nil }),
			outcome{State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonWorkloadMissing, Message: "Workload Not Found; create it or correct spec.workloadRef: kubectl get deployment demo -n shop"},
		},
		"a workload of another Rollout": {
			aRollout().With(func(g *given) { g.Workload.AdoptedBy = "other" }),
			outcome{
				State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonWorkloadConflict,
				Message: "This rollout conflict with Rollout(other), one workload only have less than one Rollout; delete one of the two: kubectl delete rollout demo -n shop",
			},
		},
		"a workload that is not adopted yet": {
			aRollout().With(func(g *given) { g.Workload.Adopted = false }),
			outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"adopt Deployment demo"}, Message: "the workload is being adopted"},
		},
		"a Rollout without our finalizer": {
			aRollout().With(func(g *given) { g.Finalizer = false }),
			outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"add finalizer"}, Message: "the workload is being adopted"},
		},
		"a stable Service that does not exist": {
			aRollout().HeldAt("v2").With(func(g *given) { g.StableService = nil }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonServiceMissing,
				Message: "Service demo does not exist; create it, or name the Service of the workload in trafficRoutings[].service: kubectl get services -n shop",
			},
		},
		"a stable Service that goes during the release": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.StableService = nil }),
			outcome{
				State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonServiceMissing,
				Message: "Service demo does not exist; create it, or name the Service of the workload in trafficRoutings[].service: kubectl get services -n shop",
			},
		},
		"a foreign canary Service": {
			aRollout().HeldAt("v2").With(func(g *given) { g.CanaryService = &rollout.Service{} }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonNameConflict,
				Message: "Service demo-canary exists and is not ours; rename or delete it, the release needs this name for its canary: kubectl delete service demo-canary -n shop",
			},
		},
		"a foreign canary Deployment": {
			aRelease().With(func(g *given) { g.StableService.Hash, g.Canary = "h1", &rollout.Canary{} }),
			outcome{State: rollout.StateUpgrade, Step: 1, Stalled: rollout.ReasonNameConflict, Message: foreignCanary},
		},
		"a route that does not exist": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Routes[0].Missing = true }),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonRouteMissing,
				Message: "VirtualService demo does not exist; create it, or correct customNetworkRefs: kubectl get virtualservice -n shop",
			},
		},
		"a later step that the gateway cannot express, before the first pod": {
			aRollout().HeldAt("v2").With(func(g *given) {
				g.Routes[0].Steps[3] = rollout.Rendering{Refused: "VirtualService demo cannot carry out step 3: no weights"}
			}),
			outcome{
				State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonRouteUnsupported,
				Message: "VirtualService demo cannot carry out step 3: no weights; mend the object, its script or the step: kubectl edit rollout demo -n shop",
			},
		},
		"an unsupported field": {
			aRollout().HeldAt("v2").With(func(g *given) { g.Spec.Unsupported = []string{"step[0].mirror"} }),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonUnsupported, Message: unsupported + "roll the workload back (kubectl apply the previous manifest), then remove it from the Rollout"},
		},
		"an unsupported field is shown at rest": {
			aRollout().With(func(g *given) { g.Spec.Unsupported = []string{"step[0].mirror"} }),
			outcome{State: rollout.StateIdle, Step: 3, Stalled: rollout.ReasonUnsupported, Message: unsupported + "remove it from the Rollout to go on: kubectl edit rollout demo -n shop"},
		},
		"a problem stops a step": {
			aRelease().AtStep(2).Paused().Approved().With(func(g *given) {
				g.Problems = []rollout.Problem{{Reason: rollout.ReasonScriptMissing, Message: "no script"}}
			}),
			outcome{State: rollout.StateReady, Step: 2, Stalled: rollout.ReasonScriptMissing, Message: "no script"},
		},
		"an owner who says no stops a step that was approved": {
			aRelease().AtStep(2).Paused().Approved().With(notAllowed),
			outcome{State: rollout.StateReady, Step: 2, Stalled: rollout.ReasonRouteNotAllowed, Message: "the owner says no"},
		},
		"an owner who says no does not keep a rollback": {
			aRelease().AtStep(2).Paused().RolledBack().With(notAllowed),
			outcome{
				State: rollout.StateFinalising, Step: 2, Actions: []string{"restore VirtualService demo"},
				Message: "The workload has been rolled back and the rollout process will be canceled",
			},
		},
		"an advisory problem stops nothing": {
			aRelease().AtStep(2).Paused().With(func(g *given) {
				g.Problems = []rollout.Problem{{Reason: rollout.ReasonAdmissionPolicyMissing, Message: "m", Warning: true}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonAdmissionPolicyMissing, Message: confirm2},
		},
		"what stops a step is shown before advice": {
			aRelease().AtStep(2).Paused().With(func(g *given) {
				g.Problems = []rollout.Problem{{Reason: rollout.ReasonAdmissionPolicyMissing, Message: "m", Warning: true}, {Reason: rollout.ReasonScriptMissing, Message: "no script"}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonScriptMissing, Message: "no script"},
		},
		"blind, nothing is concluded from a workload that is not seen": {
			aRelease().AtStep(2).Paused().With(func(g *given) {
				g.Workload, g.Problems = nil, []rollout.Problem{{Reason: rollout.ReasonForbidden, Message: "cannot read", Unknown: true}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonForbidden, Message: "cannot read"},
		},
		"an invalid spec during a release keeps a deleted Rollout": {
			aRelease().AtStep(2).Paused().Deleted().With(invalid),
			outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonInvalidSpec, Message: "bad"},
		},
		"an invalid spec at rest lets a deleted Rollout go": {
			aRollout().Deleted().With(invalid),
			outcome{State: rollout.StateIdle, Step: 3, Actions: []string{"remove finalizer"}, Stalled: rollout.ReasonInvalidSpec, Message: "bad"},
		},
		"a state of a newer version": {
			aRelease().In("Levitating"),
			outcome{
				State: "Levitating", Step: 1, Stalled: rollout.ReasonInvalidSpec,
				Message: `status.sluice.state "Levitating" is not known to this version of Sluice; run the version that wrote it, or a newer one`,
			},
		},
		"an owner's pause stands in the way of the last pods": {
			aRelease().AtStep(3).Cleared().Finalising(api.FinaliseSuccess).With(func(g *given) {
				g.Workload.Held, g.Workload.OwnerPaused, g.Status.Sluice.RouteDigest = false, true, ""
			}),
			outcome{
				State: rollout.StateFinalising, Step: 3, Stalled: rollout.ReasonWorkloadPaused,
				Message: "Deployment demo is paused by its owner, so its version cannot reach all pods; resume it: kubectl rollout resume deployment/demo -n shop",
			},
		},
	})
}

func invalid(g *given) {
	g.Spec, g.Problems = rollout.Spec{}, []rollout.Problem{{Reason: rollout.ReasonInvalidSpec, Message: "bad", Unknown: true}}
}

func notAllowed(g *given) {
	g.Problems = []rollout.Problem{{Reason: rollout.ReasonRouteNotAllowed, Message: "the owner says no", Route: g.Routes[0].Object}}
}

func TestPlanMendsALostCanary(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"somebody deletes the canary: its traffic goes first": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary = nil }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"then it is made again": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary = nil; g.unrouted() }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"create canary demo-canary with 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a canary of another version loses its traffic": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary.Revision = "v0" }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout is in Progressing"},
		},
		"and keeps its pods while traffic may be on its way": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary.Revision = "v0"; g.unrouted() }),
			outcome{State: rollout.StatePaused, Step: 2, Message: "waiting for traffic that is still on its way to the canary"},
		},
		"and is then deleted": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Canary.Revision = "v0"; g.unrouted() }).Planned().After(3 * time.Second),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"delete canary demo-canary"}, Message: "Rollout is in Progressing"},
		},
		"an older canary that is going is waited for": {
			aRelease().With(func(g *given) { g.StableService.Hash = "h1"; g.Pods(1, 1); g.Canary.Deleting = true }),
			outcome{State: rollout.StateUpgrade, Step: 1, Message: "waiting for an older canary Deployment demo-canary to be deleted"},
		},
		"pods that fail during the pause hold the step": {
			aRelease().AtStep(2).Ready().With(func(g *given) { g.Pods(5, 3) }),
			outcome{State: rollout.StateReady, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 3 of 5 canary pods are available"},
		},
	})
}

// After the third rewrite by another client, the executor leaves the object to that client for a minute, again and again.
func TestPlanLeavesARouteInConflictAlone(t *testing.T) {
	g := aRelease().AtStep(2).Paused()
	fight := func() outcome {
		g.Routes[0].Steps[2] = rollout.Rendering{Digest: "d2"}
		g.Routes[0].Foreign, g.Routes[0].ForeignBy = "theirs", "argocd"
		o := g.outcome()
		g.Planned()
		return o
	}
	var got []string
	for range 3 {
		got = append(got, strings.Join(fight().Actions, ","))
		g.After(5 * time.Second)
	}
	if diff := cmp.Diff([]string{"route step 2 on VirtualService demo", "route step 2 on VirtualService demo", ""}, got); diff != "" {
		t.Error(diff)
	}
	o := fight()
	if o.Stalled != rollout.ReasonRouteConflict || !strings.HasPrefix(o.Message, `VirtualService demo keeps being written by "argocd" with other content`) {
		t.Errorf("a contested route shows as %+v", o)
	}
	g.After(time.Minute)
	if again := fight(); len(again.Actions) != 1 {
		t.Errorf("after a minute the route is not tried again: %+v", again)
	}
	if once := fight(); len(once.Actions) != 0 || once.Stalled != rollout.ReasonRouteConflict {
		t.Errorf("one more time of the same content is not left alone: %+v", once)
	}
	g.After(time.Minute)
	g.Routes[0].Foreign = ""
	if free := g.outcome(); len(free.Actions) != 1 || free.Stalled != "" {
		t.Errorf("a route that nobody contests is not written: %+v", free)
	}
}

// The planner may see one write of another client many times, because the executor's own write may meet conflicts or be refused.
func TestPlanCountsAWriteOnce(t *testing.T) {
	g := aRelease().AtStep(2).Paused()
	look := func(version string) string {
		g.Routes[0].Steps[2] = rollout.Rendering{Digest: "d2"}
		g.Routes[0].Foreign, g.Routes[0].ForeignBy, g.Routes[0].Version = "theirs", "argocd", version
		actions := strings.Join(g.outcome().Actions, ",")
		g.Planned().After(time.Second)
		return actions
	}
	const routed = "route step 2 on VirtualService demo"
	var got []string
	for _, version := range []string{"1", "1", "1", "1", "2", "2", "3", "3"} {
		got = append(got, look(version))
	}
	if diff := cmp.Diff([]string{routed, routed, routed, routed, routed, routed, "", ""}, got); diff != "" {
		t.Error(diff)
	}
	g.After(conflictPause)
	if diff := cmp.Diff([]string{routed, routed, ""}, []string{look("3"), look("3"), look("4")}); diff != "" {
		t.Errorf("after the pause: %s", diff)
	}
}

// A client that replaces the whole object also removes Sluice's annotations. Then only the returning content shows the conflict.
func TestPlanLeavesARouteAloneThatIsReplacedAgainAndAgain(t *testing.T) {
	g := aRelease().AtStep(2).Paused()
	var got []string
	for range 5 {
		g.Routes[0] = rollout.Route{Object: g.Routes[0].Object, Content: "owner's", ForeignBy: "kubectl-replace", Steps: map[int32]rollout.Rendering{2: {Digest: "d2"}}}
		got = append(got, strings.Join(g.outcome().Actions, ","))
		g.Planned()
		g.After(time.Second)
	}
	const routed = "route step 2 on VirtualService demo"
	if diff := cmp.Diff([]string{routed, routed, routed, "", ""}, got); diff != "" {
		t.Error(diff)
	}
	if o := g.outcome(); o.Stalled != rollout.ReasonRouteConflict {
		t.Errorf("a route that is replaced again and again shows as %+v", o)
	}
}
