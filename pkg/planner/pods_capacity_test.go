package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// shrinking sets constant capacity, with spec.replicas of so many of the ten stable pods, which are ready.
func (g *given) shrinking(told int32) *given {
	g.Spec.ConstantCapacity = true
	g.planned()
	w := g.Workload
	w.SpecReplicas, w.ScaledDown = told, told < w.DesiredReplicas
	w.Revisions[0].Replicas, w.Revisions[0].Ready = told, told
	return g
}

// planned makes the present plan the plan of the release.
func (g *given) planned() {
	g.replan()
	g.Status.Sluice.PlanHash, g.Status.Common().RolloutHash = g.Spec.Hash, g.Spec.Hash
}

// weighing gives the canary a share on all routes.
func (g *given) weighing(percent int32) *given {
	for i := range g.Routes {
		g.Routes[i].Weight = rollout.Percent(percent)
	}
	return g
}

// shares renders the routes with a share of the traffic in a step below 0.
func (g *given) shares(step int32, r rollout.Rendering) *given {
	for i := range g.Routes {
		g.Routes[i].Steps[step] = r
	}
	return g
}

func TestPlanShrinksTheStableWorkload(t *testing.T) {
	t.Parallel()
	inStep := func(n, told int32) *given { return aRelease().AtStep(n).Paused().shrinking(told) }
	runPlanCases(t, map[string]planCase{
		"a step by matches leaves all stable pods": {inStep(1, 10), outcome{State: rollout.StatePaused, Step: 1, Message: confirm1}},
		"a step by weight takes what the canary has gained": {
			inStep(2, 10).weighing(50), outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale Deployment demo to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"an autoscaler is taken off, and the workload marked before": {
			inStep(2, 10).weighing(50).With(func(g *given) { g.Autoscalers = []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HPA", Name: "demo"}}} }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale Deployment demo to 10 replicas"}, Message: "Rollout is in Progressing"},
		},
		"an autoscaler goes before pods do": {
			inStep(2, 10).weighing(50).With(func(g *given) {
				g.Workload.ScaledDown, g.Autoscalers = true, []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HPA", Name: "demo"}}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"disable HPA demo"}, Message: "Rollout is in Progressing"},
		},
		"one that somebody puts back on what is left is taken off again": {
			inStep(2, 5).weighing(50).With(func(g *given) { g.Autoscalers = []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HPA", Name: "demo"}}} }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"disable HPA demo"}, Message: "Rollout is in Progressing"},
		},
		"what it wrote meanwhile is made the release's own before": {
			inStep(2, 5).weighing(50).With(func(g *given) {
				g.Workload.SpecReplicas, g.Workload.AutoscalerActive, g.Autoscalers = 7, true, []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HPA", Name: "demo"}}}
			}),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale Deployment demo to 7 replicas"}, Message: "Rollout is in Progressing"},
		},
		"no more than its traffic leaves": {
			inStep(2, 10).weighing(50).With(func(g *given) { g.Pods(8, 8); g.Spec.Steps[1].Weight = weight(30) }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale Deployment demo to 7 replicas"}, Message: "Rollout is in Progressing"},
		},
		"a workload that was scaled up has more pods": {
			inStep(2, 5).weighing(50).With(func(g *given) { g.Workload.DesiredReplicas = 20 }),
			outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"scale Deployment demo to 15 replicas"}, Message: "Rollout is in Progressing"},
		},
		"canary pods that are lost come back as stable ones, beyond what may be missing": {
			inStep(3, 2).weighing(80).With(func(g *given) { g.Canary.Available = 5 }),
			outcome{State: rollout.StatePaused, Step: 3, Actions: []string{"scale Deployment demo to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"what may be missing is waited for": {
			inStep(3, 2).weighing(80).With(func(g *given) { g.Canary.Available = 7 }),
			outcome{State: rollout.StatePaused, Step: 3, Message: "Rollout is in step(3/3), and upgrade workload to new version: 7 of 8 canary pods are available"},
		},
		"a jump back brings stable pods first": {
			aRelease().AtStep(3).In(rollout.StateUpgrade).shrinking(2).weighing(80).With(func(g *given) { g.Status.Sluice.Step = 2 }).In(rollout.StateUpgrade),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"scale Deployment demo to 5 replicas"}, Message: "Rollout is in Progressing"},
		},
		"and waits for them before their traffic": {
			aRelease().AtStep(3).shrinking(5).weighing(80).With(func(g *given) { g.Status.Sluice.Step, g.Workload.Revisions[0].Ready = 2, 3 }).In(rollout.StateUpgrade),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the pods of the stable version that get more traffic: 3 of 4 are ready"},
		},
		"without traffic routing a stable pod stays": {
			inStep(3, 10).With(func(g *given) {
				g.Spec.Routing, g.Routes, g.Backends = nil, nil, nil
				g.Pods(10, 10)
				g.planned()
			}),
			outcome{State: rollout.StatePaused, Step: 3, Actions: []string{"scale Deployment demo to 1 replicas"}, Message: "Rollout is in Progressing"},
		},
	})
}

func TestPlanHandsPodsAndTrafficBack(t *testing.T) {
	t.Parallel()
	const again = "Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	const stopped = "Stopped at the release was aborted. Traffic goes back to the stable version as its pods come back. " + again
	aborted := func(told, ready int32) *given {
		g := aRelease().AtStep(2).shrinking(told).weighing(50)
		g.Workload.Revisions[0].Ready = ready
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	does := func(message string, actions ...string) outcome {
		return outcome{State: rollout.StateAborted, Step: 2, Actions: actions, Message: message}
	}
	const back = "waiting for the workload to have its pods back: "
	ready := rollout.Rendering{Digest: "d"}
	runPlanCases(t, map[string]planCase{
		"traffic goes as far as the stable pods bear it": {aborted(5, 5).shares(-38, ready), does(stopped, "leave 38% on the canary by VirtualService demo")},
		"the gateway is waited for": {
			aborted(6, 5).weighing(38).shares(-38, rollout.Rendering{Digest: "d", Applied: true}), does("waiting for the gateway to accept VirtualService demo"),
		},
		"one that is slow keeps no pods away": {
			aborted(5, 5).weighing(38).shares(-38, rollout.Rendering{Digest: "d", Applied: true}), does("waiting for the gateway to accept VirtualService demo", "scale Deployment demo to 6 replicas"),
		},
		"nor does one that cannot share": {
			aborted(5, 5).shares(-38, rollout.Rendering{Refused: "no"}),
			does(back+"the share of the canary on VirtualService demo cannot be made less", "scale Deployment demo to 6 replicas"),
		},
		"canary pods go where stable ones come": {
			aborted(5, 5).weighing(38).shares(-38, rollout.Rendering{Digest: "d", Applied: true, Accepted: true}),
			does(back+"5 of 10 are ready", "scale down canary demo-canary to 4 replicas", "scale Deployment demo to 7 replicas"),
		},
		"the surge is its owner's": {
			aborted(5, 5).weighing(38).With(func(g *given) { g.Workload.MaxSurge = 3 }),
			does(back+"5 of 10 are ready", "scale down canary demo-canary to 4 replicas", "scale Deployment demo to 9 replicas"),
		},
		"stable pods that are lost give the canary nothing":   {aborted(8, 4).weighing(20).With(func(g *given) { g.Pods(2, 2) }), does(back+"4 of 10 are ready", "scale Deployment demo to 9 replicas")},
		"a share stays until the last stable pods are on":     {aborted(8, 8).weighing(20).shares(-1, ready), does(stopped, "leave 1% on the canary by VirtualService demo")},
		"the whole workload has its replicas back":            {aborted(10, 8).weighing(1).With(func(g *given) { g.Workload.ScaledDown = true }), does(stopped, "give Deployment demo its replicas back")},
		"traffic does not wait for a canary that cannot bear": {aborted(5, 5).With(func(g *given) { g.Canary.Available = 0 }), does(stopped, "give Deployment demo its replicas back")},
		"autoscalers come back with all pods, and the mark after them": {
			aborted(10, 10).weighing(1).With(func(g *given) {
				g.Workload.ScaledDown, g.Autoscalers = true, []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HPA", Name: "demo"}, Disabled: true}}
			}), does(stopped, "restore HPA demo"),
		},
		"a workload that never gave way loses its traffic at once": {
			aborted(10, 4), does("Stopped at the release was aborted. All traffic is on the stable version. "+again, "restore VirtualService demo"),
		},
	})
}

// The workload rolls with its present pods while the canary serves as well, and only then grows.
func TestASuccessHandsPodsBackWithoutRoutes(t *testing.T) {
	t.Parallel()
	g := aRelease().AtStep(3).shrinking(2).weighing(80).Finalising(api.FinaliseSuccess)
	g.StableService.Hash = ""
	if diff := cmp.Diff([]string{"restore VirtualService demo"}, g.outcome().Actions); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	g.unrouted()
	g.CanaryService, g.Status.Sluice.RouteDigest = nil, ""
	if diff := cmp.Diff([]string{"resume Deployment demo"}, g.outcome().Actions); diff != "" {
		t.Errorf("unrouted (-want +got):\n%s", diff)
	}
	g.Workload.Held, g.Workload.Paused, g.Workload.Total = false, false, 2
	if got := g.outcome().Actions; len(got) > 0 {
		t.Errorf("while it rolls: %v", got)
	}
	g.Workload.Updated = 2
	if diff := cmp.Diff([]string{"scale Deployment demo to 3 replicas"}, g.outcome().Actions); diff != "" {
		t.Errorf("let go (-want +got):\n%s", diff)
	}
	g.Workload.SpecReplicas, g.Workload.Updated, g.Workload.Total, g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = 5, 5, 5, 5, 5
	if diff := cmp.Diff([]string{"scale down canary demo-canary to 4 replicas", "scale Deployment demo to 7 replicas"}, g.outcome().Actions); diff != "" {
		t.Errorf("with more pods (-want +got):\n%s", diff)
	}
}
