package planner

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// single is a release in place of a workload of one pod that is about to carry out a step, with so many new pods and so many old pods.
func single(step, pods, old int32) *given {
	g := replacing(step, pods, pods, old)
	g.Workload.DesiredReplicas, g.Workload.Total, g.Workload.Available = 1, 1, 1
	return g
}

// stepping replaces a step.
func (g *given) stepping(n int32, step rollout.Step) *given {
	step.Manual = true
	g.Spec.Steps[n-1] = step
	g.replan()
	g.Status.Sluice.PlanHash, g.Status.Common().RolloutHash = g.Spec.Hash, g.Spec.Hash
	return g
}

func percent(n int32) rollout.Amount { return rollout.Amount{Value: n, Percent: true} }

const fullStep2 = "Step 2 asks for 50% of the pods and 50% of the traffic, but Deployment demo has 1 pod, and the step would replace the last one of the stable version: " +
	"all requests would go to the new version; scale Deployment demo up, release the next version in canary style (spec.strategy.canary.enableExtraWorkloadForCanary: true), " +
	"or accept that with allowFullStep: true in step 2: kubectl edit rollout demo -n shop"

func TestAStepThatCannotBeCarriedOutIsHeld(t *testing.T) {
	t.Parallel()
	held := outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonFullStep, Message: fullStep2}
	accepted := func(g *given) { g.Spec.Steps[1].AllowFull = true }
	does := func(actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Actions: actions, Message: "Rollout is in Progressing"}
	}
	const all = "let Deployment demo replace pods: 100% and 0 more"
	runPlanCases(t, map[string]planCase{
		"before the first new pod":                          {single(2, 0, 1), held},
		"before anything is done to the workload":           {single(2, 0, 1).With(untouched), held},
		"with its Service still narrowed":                   {single(2, 0, 1).In(rollout.StateBeforeUpgrade), held},
		"and narrowed if it is not":                         {single(2, 0, 1).With(func(g *given) { g.StableService.Hash = "" }), does("pin Service demo to h1")},
		"unless its owner accepts that, and all is opened":  {single(2, 0, 1).With(accepted), does("unpin Service demo")},
		"and then all is replaced":                          {single(2, 0, 1).With(accepted).With(func(g *given) { g.StableService.Hash = "" }), does(all)},
		"what somebody approved is not carried out either":  {single(2, 0, 1).In(rollout.StateReady), outcome{State: rollout.StateReady, Step: 2, Stalled: rollout.ReasonFullStep, Message: fullStep2}},
		"a controller that is at work is stopped":           {single(2, 0, 1).rolling(rollout.Budget{Unavailable: 100, Surge: 1}), does("pause Deployment demo")},
		"routes to new pods that an autoscaler took go":     {single(2, 0, 1).routedTo(1, 0).In(rollout.StatePaused), outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"restore VirtualService demo"}, Message: "Rollout is in Progressing"}},
		"a new pod that an autoscaler left gets everything": {single(2, 1, 0).In(rollout.StatePaused), outcome{State: rollout.StatePaused, Step: 2, Actions: []string{"unpin Service demo"}, Message: "Rollout is in Progressing"}},
		"and the step goes no further": {
			single(2, 1, 0).In(rollout.StatePaused).With(func(g *given) { g.StableService.Hash = "" }), outcome{State: rollout.StatePaused, Step: 2, Stalled: rollout.ReasonFullStep, Message: strings.Replace(fullStep2, "the step would replace the last one of the stable version: all requests would go", "none of the stable version: all requests go", 1)},
		},
		"two pods are enough":           {single(2, 0, 2).With(func(g *given) { g.Workload.DesiredReplicas = 2 }), does("let Deployment demo replace pods: 50% and 0 more")},
		"what is rolled back goes back": {single(2, 0, 1).RolledBack(), outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"resume Deployment demo"}, Message: "The workload has been rolled back and the rollout process will be canceled"}},
		"all pods with half of the traffic are held": {replacing(2, 0, 0, 3).stepping(2, rollout.Step{Replicas: percent(100), Weight: weight(50)}).With(func(g *given) { g.Workload.DesiredReplicas = 3 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonFullStep, Message: "Step 2 asks for 100% of the pods and 50% of the traffic, but Deployment demo has 3 pods, and the step would replace the last one " +
				"of the stable version: all requests would go to the new version; let the step ask for fewer pods or for all of the traffic, release the next version in canary style " +
				"(spec.strategy.canary.enableExtraWorkloadForCanary: true), or accept that with allowFullStep: true in step 2: kubectl edit rollout demo -n shop"}},
		"a CloneSet is held":  {single(2, 0, 1).by("CloneSet", rollout.MechanismPartition).leaving(percent(100)), held.about("CloneSet demo", "scale CloneSet demo up")},
		"a DaemonSet is held": {single(2, 0, 1).by("DaemonSet", rollout.MechanismOnDelete), held.about("DaemonSet demo", "let DaemonSet demo run on more nodes")},
	})
}

// about changes the text of a hold for a workload other than a Deployment.
func (o outcome) about(workload, advice string) outcome {
	o.Message = fmt.Sprintf("Step 2 asks for 50%% of the pods and 50%% of the traffic, but %[1]s has 1 pod, and the step would replace the last one of the stable version: "+
		"all requests would go to the new version; %[2]s, or accept that with allowFullStep: true in step 2: kubectl edit rollout demo -n shop", workload, advice)
	return o
}

func TestWhichStepMayTakeTheLastPod(t *testing.T) {
	t.Parallel()
	requests := []api.HTTPRouteMatch{{}}
	for _, test := range []struct {
		what string
		n    int32
		step rollout.Step
		of   int32 // pods of the workload
		held bool
	}{
		{"a share of one pod", 1, rollout.Step{Replicas: percent(10)}, 1, true},
		{"with all the traffic", 1, rollout.Step{Replicas: percent(10), Weight: weight(100)}, 1, true},
		{"in the last step", 3, rollout.Step{Replicas: percent(99)}, 1, true},
		{"a share of two pods leaves one", 1, rollout.Step{Replicas: percent(99)}, 2, false},
		{"a number of pods that a workload does not have any more", 1, rollout.Step{Replicas: rollout.Amount{Value: 1}}, 1, true},
		{"a number that is more than all", 2, rollout.Step{Replicas: rollout.Amount{Value: 5}}, 3, true},
		{"a number that is all of them in the last step", 3, rollout.Step{Replicas: rollout.Amount{Value: 3}}, 3, false},
		{"with a share of the traffic", 3, rollout.Step{Replicas: rollout.Amount{Value: 3}, Weight: weight(50)}, 3, true},
		{"with all of it", 2, rollout.Step{Replicas: rollout.Amount{Value: 3}, Weight: weight(100)}, 3, false},
		{"all pods", 1, rollout.Step{Replicas: percent(100)}, 3, false},
		{"all pods and all traffic", 1, rollout.Step{Replicas: percent(100), Weight: weight(100)}, 3, false},
		{"all pods and half of the traffic", 3, rollout.Step{Replicas: percent(100), Weight: weight(50)}, 3, true},
		{"all pods and some requests", 3, rollout.Step{Replicas: percent(100), Matches: requests}, 3, true},
		{"all pods and copies of requests", 3, rollout.Step{Replicas: percent(100), Mirror: weight(10)}, 3, true},
		{"a share of no pod", 1, rollout.Step{Replicas: percent(10)}, 0, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			g := single(test.n, 0, test.of).stepping(test.n, test.step)
			g.Workload.DesiredReplicas = test.of
			for accepted, want := range map[bool]bool{false: test.held, true: false} {
				g.Spec.Steps[test.n-1].AllowFull = accepted
				if got := newPlanner(g.Seen, g.now).stepInfeasible(); got != want {
					t.Errorf("accepted %t: the step is held: %t, not %t", accepted, got, want)
				}
			}
			g.Spec.Style = rollout.StyleCanary
			g.Spec.Steps[test.n-1].AllowFull = false
			if newPlanner(g.Seen, g.now).stepInfeasible() {
				t.Error("a release in canary style is held, which takes no stable pod")
			}
		})
	}
}

func TestTheTrafficInForceIsTold(t *testing.T) {
	t.Parallel()
	open := func(g *given) { g.StableService.Hash = "" }
	for _, test := range []struct {
		what string
		is   *given
		want string
	}{
		{"at rest", aRollout(), ""},
		{"when a release begins", aRollout().HeldAt("v2"), "0%"},
		{"before the first step is routed", aRelease().With(func(g *given) { g.StableService.Hash = "h1" }), "0%"},
		{"by what requests carry", aRelease().AtStep(1).Paused(), rollout.TrafficMatches},
		{"by a share", aRelease().AtStep(2).Paused(), "50%"},
		{"while the next step waits for its pods", aRelease().AtStep(2).Paused().Planned().With(func(g *given) { g.Status.Sluice.Step = 3 }).In(rollout.StateUpgrade), "50%"},
		{"when one pod is all", single(2, 1, 0).With(open).With(func(g *given) { g.Spec.Steps[1].AllowFull = true }).In(rollout.StatePaused), "100%"},
		{"when an autoscaler has left a new pod alone", single(2, 1, 0).With(open).In(rollout.StatePaused), "100%"},
		{"in a step that is held", single(2, 0, 1), "0%"},
		{"when an autoscaler has left an old pod alone", single(2, 0, 1).In(rollout.StatePaused), "0%"},
		{"after an abort", aRelease().AtStep(2).Cleared().With(func(g *given) { g.Status.Sluice.RouteDigest = "" }).In(rollout.StateAborted), "0%"},
		{"after an abort, before traffic has left", aRelease().AtStep(2).Paused().Planned().In(rollout.StateAborted).With(func(g *given) { g.Routes[0].Weight = 30 }), "30%"},
		{"after an abort of a canary that shares a Service", aRelease().AtStep(2).In(rollout.StateAborted).With(open).With(func(g *given) { g.unrouted(); g.Status.Sluice.RouteDigest = "" }), ""},
		{"while a full step opens the Service", single(2, 0, 1).With(open).With(func(g *given) {
			g.Spec.Steps[1].AllowFull = true
			g.Workload.DesiredReplicas, g.Workload.Revisions[1].Replicas = 2, 1
			g.Status.Sluice.RouteDigest = "d1"
		}), ""},
		{"behind two Services, one of them shared", replacing(2, 5, 5, 5).With(func(g *given) {
			g.Spec.Routing = append(g.Spec.Routing, rollout.Routing{Service: "grpc", CanaryService: "grpc"})
			g.Backends = append(g.Backends, rollout.Backend{StableService: &rollout.Service{UID: "g"}})
			g.replan()
			g.Status.Sluice.PlanHash, g.Status.Common().RolloutHash, g.Status.Sluice.RouteDigest = g.Spec.Hash, g.Spec.Hash, "d2"
		}).In(rollout.StatePaused), "50%"},
		{"at the end of a release that has replaced all pods", single(2, 1, 0).With(open).With(func(g *given) { g.Status.Sluice.RouteDigest = "d2" }).Finalising(api.FinaliseSuccess), "100%"},
		{"in a rollback from a full step", single(2, 1, 0).With(open).RolledBack().Finalising(api.FinaliseRollback), "100%"},
		{"by whatever the gateway says, after requests that match", aRelease().AtStep(1).Paused().Planned().Finalising(api.FinaliseSuccess).With(func(g *given) { g.Routes[0].Weight = 100 }), "100%"},
		{"while the Rollout is not valid", aRelease().AtStep(2).Paused().Planned().With(func(g *given) {
			g.Spec = rollout.Spec{}
			g.Problems = []rollout.Problem{{Unknown: true, Message: "invalid"}}
		}), "50%"},
		{"by an executor that began in the middle of a step", aRelease().AtStep(2).With(func(g *given) { g.Status.Sluice.Traffic = ""; g.Routes[0].Weight = 50; g.CanaryEndpoints = 0 }), "50%"},
		{"without traffic routing the pods decide", replacing(2, 5, 5, 5).With(func(g *given) { g.Spec.Routing, g.Backends, g.Routes = nil, nil, nil }).In(rollout.StatePaused), ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			if got := Plan(test.is.Seen, test.is.now).Status.Sluice.Traffic; got != test.want {
				t.Errorf("told is %q, not %q", got, test.want)
			}
		})
	}
}
