package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// inPlace lets the workload of ten pods replace its own pods.
func (g *given) inPlace() *given {
	g.Spec.Style = rollout.StylePartition
	g.Workload.MaxUnavailable, g.Workload.MaxSurge = 2, 1
	return g.replan()
}

// replacing is a release of v2 in place that is about to reach a step, with so many new pods, some of them ready, and so many old pods.
func replacing(step, pods, ready, old int32) *given {
	g := aRollout().inPlace().HeldAt("v2").Planned()
	g.Status.Sluice.Step = step
	g.StableService.Hash = "h1"
	g.Workload.TakenOver = true
	g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: old, Ready: old}, {Hash: "h2", Revision: "v2", Replicas: pods, Ready: ready, Unavailable: true}}
	return g.In(rollout.StateUpgrade)
}

// untouched removes the changes of a release from the workload.
func untouched(g *given) {
	g.Workload.TakenOver, g.Workload.Revisions = false, g.Workload.Revisions[:1]
}

// rolling lets the controller work with a budget.
func (g *given) rolling(b rollout.Budget) *given {
	g.Workload.Paused, g.Workload.Budget = false, b
	return g
}

// tolerating sets a failureThreshold in percent.
func (g *given) tolerating(percent int32) *given {
	g.Spec.FailureThreshold = rollout.Amount{Value: percent, Percent: true}
	return g
}

func TestPlanReplacesPodsInPlace(t *testing.T) {
	t.Parallel()
	const upgrades = "Rollout is in step(2/3), and upgrade workload to new version: "
	runPlanCases(t, map[string]planCase{
		"a workload is parked before its first new pod": {
			replacing(2, 0, 0, 10).With(func(g *given) { g.Workload.TakenOver = false }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"take over Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"one that has nothing of the new version is parked and let go at once": {
			replacing(2, 0, 0, 10).With(untouched), outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"let Deployment demo replace pods: 20% and 1 more"}, Message: "Rollout is in Progressing"},
		},
		"not before its controller has seen the hold": {
			replacing(2, 0, 0, 10).With(untouched).With(func(g *given) { g.Workload.Observed = false }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"take over Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"nor where pods are missing": {
			replacing(2, 0, 0, 9).With(untouched), outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"take over Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"it is let go as far as its owner allows": {
			replacing(2, 0, 0, 10),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"let Deployment demo replace pods: 20% and 1 more"}, Message: "Rollout is in Progressing"},
		},
		"and further with each pod that is ready": {
			replacing(2, 3, 2, 8).rolling(rollout.Budget{Unavailable: 20, Surge: 1}),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"let Deployment demo replace pods: 40% and 1 more"}, Message: "Rollout is in Progressing"},
		},
		"pods that are not ready are waited for": {
			replacing(2, 3, 0, 8).rolling(rollout.Budget{Unavailable: 20, Surge: 1}), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "0 of 5 new pods are ready"},
		},
		"pods that are tolerated are no budget": {
			replacing(2, 3, 0, 8).rolling(rollout.Budget{Unavailable: 20, Surge: 1}).tolerating(50), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "0 of 5 new pods are ready"},
		},
		"a step that has all its pods but those that are tolerated rests": {
			replacing(2, 5, 3, 5).rolling(rollout.Budget{Unavailable: 50, Surge: 0}).tolerating(40),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"pause Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"one that tolerates more than its owner says so": {
			replacing(2, 4, 1, 7).rolling(rollout.Budget{Unavailable: 30, Surge: 1}).tolerating(80), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades +
				"1 of 5 new pods are ready; failureThreshold would do with them, but only 2 pods may be missing at once: see maxUnavailable of Deployment demo"},
		},
		"a step that is reached rests": {
			replacing(2, 5, 5, 5).rolling(rollout.Budget{Unavailable: 50, Surge: 0}),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"pause Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"not before the old pods have gone": {
			replacing(2, 5, 5, 6).rolling(rollout.Budget{Unavailable: 50, Surge: 0}), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "5 of 5 new pods are ready"},
		},
		"pods that become unready at rest do not set it free": {
			replacing(2, 5, 4, 5), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "4 of 5 new pods are ready"},
		},
		"a controller that has not seen the parking is waited for": {
			replacing(2, 3, 3, 8).With(func(g *given) { g.Workload.Revisions[1].Unavailable = false }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the controller of Deployment demo to see how it is to be released"},
		},
		"a change that came too early is stopped where it is": {
			replacing(1, 4, 4, 7).With(func(g *given) { g.Workload.Paused, g.Workload.TakenOver, g.Workload.Held = false, false, false }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"take over Deployment demo"}, Message: "Rollout is in Progressing"},
		},
		"the pods that it had taken away come back stable": {
			replacing(1, 4, 4, 4).With(func(g *given) { g.Workload.ReplicaSetsFrozen = true }),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"scale h1 of Deployment demo to 6"}, Message: "Rollout is in Progressing"},
		},
		"not before its controller knows that it is stopped": {
			replacing(1, 4, 4, 4).With(func(g *given) { g.Workload.ReplicaSetsFrozen, g.Workload.Observed = true, false }),
			outcome{State: rollout.StateUpgrade, Step: 1, Message: "waiting for the controller of Deployment demo to see how it is to be released"},
		},
		"pods of a third version go before stable ones": {
			replacing(1, 0, 0, 8).With(func(g *given) {
				g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h3", Revision: "v3", Replicas: 2, Ready: 2})
			}),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"hold h3 of Deployment demo unavailable"}, Message: "Rollout is in Progressing"},
		},
		"a pause of the Rollout stops it in the middle": {
			replacing(2, 3, 2, 8).rolling(rollout.Budget{Unavailable: 20, Surge: 1}).With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"hold Deployment demo"}, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
		"a strategy that replaces all pods at once is held": {
			aRollout().inPlace().HeldAt("v2").With(func(g *given) { g.Workload.Recreate = true }),
			outcome{State: rollout.StateInitializing, Step: 1, Stalled: rollout.ReasonInvalidSpec, Message: "Deployment demo has the strategy Recreate, which replaces all pods at once; set its " +
				"spec.strategy.type to RollingUpdate, or use canary style (spec.strategy.canary.enableExtraWorkloadForCanary: true): kubectl edit rollout demo -n shop"},
		},
	})
}

// A paused controller creates missing pods in the version with the most pods.
func TestAChangeIsSeizedWithItsControllerStoppedWherePodsAreMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old  int32
		want rollout.Budget
	}{
		"pods are missing": {5, rollout.Budget{}},
		"none is missing":  {7, rollout.Budget{Unavailable: 40, Surge: 1}},
	} {
		g := replacing(1, 4, 4, c.old).With(func(g *given) { g.Workload.Paused, g.Workload.TakenOver, g.Workload.Held = false, false, false })
		want := []rollout.Action{rollout.TakeOverWorkload{Workload: g.Spec.Workload, Budget: c.want}}
		if diff := cmp.Diff(want, Plan(g.Seen, g.now).Actions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Its pods never count as available while it is taken over, so it would never settle.
func TestAWorkloadThatSomebodySetFreeGetsItsFieldsBackBeforeItIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := replacing(1, 1, 1, 9).With(func(g *given) {
		g.Workload.Revision, g.Workload.Held, g.Workload.Paused, g.Workload.Updated = "v1", false, false, 9
	}).Finalising(api.FinaliseRollback)
	g.Status.Sluice.Finalise = string(api.FinalisingRestoreStableService)
	if diff := cmp.Diff([]string{"resume Deployment demo"}, g.outcome().Actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p := newPlanner(g.Seen, g.now); p.rejectedGone() || len(p.actions) != 1 {
		t.Errorf("the stable Service waits for it with the actions %v", p.actions)
	}
}

func TestPlanRetreatsInPlace(t *testing.T) {
	t.Parallel()
	aborted := func(pods, ready, old int32) *given {
		g := replacing(2, pods, ready, old)
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	backwards := func(g *given) { g.Workload.ReplicaSetsFrozen = true }
	serving := func(g *given) { g.StableService.Hash = ""; backwards(g) }
	const again = " Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	says := func(traffic string, actions ...string) outcome {
		return outcome{State: rollout.StateAborted, Step: 2, Actions: actions, Message: "Stopped at the release was aborted. " + traffic + again}
	}
	does := func(actions ...string) outcome { return says(rollout.TrafficStable, actions...) }
	runPlanCases(t, map[string]planCase{
		"its controller is stopped first":               {aborted(5, 5, 5), does("freeze Deployment demo")},
		"stable pods come, as many as the owner allows": {aborted(5, 5, 5).With(backwards), does("scale h1 of Deployment demo to 6")},
		"new pods that get no traffic go at once":       {aborted(5, 5, 6).With(backwards), does("scale h2 of Deployment demo to 0")},
		"those that do go as far as the owner allows":   {aborted(5, 5, 6).With(serving), says(rollout.TrafficReturns, "scale h2 of Deployment demo to 2")},
		"without a stable pod one comes first":          {aborted(10, 10, 0).With(serving), says(rollout.TrafficReturns, "scale h1 of Deployment demo to 1")},
		"nothing is left to do":                         {aborted(0, 0, 10).With(backwards), does()},
	})
}

// A tool may apply the version again before its pods are gone. The hold policy would pause a resumed Deployment with the owner's surge, and its
// controller would fill the surge.
func TestARollbackInPlaceTakesThePodsAwayBeforeItLetsGo(t *testing.T) {
	t.Parallel()
	rollback := func(pods, old int32) *given {
		return replacing(2, pods, pods, old).RolledBack().Cleared().Finalising(api.FinaliseRollback).With(func(g *given) { g.StableService.Hash = "h1" })
	}
	backwards := func(g *given) { g.Workload.ReplicaSetsFrozen = true }
	for name, c := range map[string]struct {
		given *given
		want  []string
	}{
		"its controller is stopped first":               {rollback(5, 5), []string{"freeze Deployment demo"}},
		"stable pods come, as many as the owner allows": {rollback(5, 5).With(backwards), []string{"scale h1 of Deployment demo to 6"}},
		"others go as far as the owner allows":          {rollback(5, 6).With(backwards), []string{"scale h2 of Deployment demo to 2"}},
		"it is let go without them":                     {rollback(0, 10).With(backwards), []string{"resume Deployment demo"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.given.outcome().Actions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsThatNoStepHasAskedForAreShown(t *testing.T) {
	t.Parallel()
	const came = ": pods that came with scaling, with a later step or in the place of lost ones are not replaced back; to take all of them back: sluice abort demo -n shop"
	for name, c := range map[string]struct {
		given *given
		want  string
	}{
		"the pods of the step":            {replacing(2, 5, 5, 5), ""},
		"fewer":                           {replacing(2, 3, 3, 7), ""},
		"more":                            {replacing(1, 5, 4, 5), "5 pods run the new version, 4 more than step 1 asks for" + came},
		"more beside those of the stable": {replacing(1, 5, 5, 10).With(func(g *given) { g.Spec.Style = rollout.StyleBlueGreen }), ""},
		"more of a version that is left":  {replacing(1, 5, 5, 5).RolledBack(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, condition := range Plan(c.given.Seen, c.given.now).Status.Conditions {
				if condition.Type == api.ConditionReplicasAboveStep {
					got = condition.Message
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
