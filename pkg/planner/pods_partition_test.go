package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// by turns the Rollout into a release of a workload of that kind, whose controller has observed its spec.
func (g *given) by(kind string, lever rollout.UpdateMechanism) *given {
	g.Spec.Workload = rollout.Ref{APIVersion: "apps/v1", Kind: kind, Name: "demo"}
	g.Workload.UpdateMechanism, g.Workload.MaxUnavailable, g.Workload.MaxSurge, g.Workload.RevertsTo = lever, 2, 0, ""
	if lever == rollout.MechanismPartition {
		g.Workload.RevertsTo = "h1"
	}
	return g
}

// leaving lets the controller work with a partition.
func (g *given) leaving(partition rollout.Amount) *given {
	g.Workload.Paused, g.Workload.Partition = false, partition
	return g
}

// places gives the pods ordinals: the new pods have these.
func (g *given) places(are ...int32) *given {
	g.Workload.HasOrdinals = true
	for i := range g.Workload.Revisions {
		if set := &g.Workload.Revisions[i]; set.Revision == g.Workload.Revision {
			set.Ordinals = are
		}
	}
	return g
}

func TestPlanMovesAPartition(t *testing.T) {
	t.Parallel()
	statefulSet := func(step, pods, ready, old int32) *given {
		return replacing(step, pods, ready, old).by("StatefulSet", rollout.MechanismPartition)
	}
	const upgrades = "Rollout is in step(2/3), and upgrade workload to new version: "
	does := func(actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Actions: actions, Message: "Rollout is in Progressing"}
	}
	runPlanCases(t, map[string]planCase{
		"what is not held is held": {
			statefulSet(2, 0, 0, 10).With(func(g *given) { g.Workload.TakenOver, g.Workload.Paused, g.Workload.Held = false, false, false }),
			does("hold StatefulSet demo"),
		},
		"the partition leaves all but the pods of the step": {statefulSet(2, 0, 0, 10), does("let StatefulSet demo replace pods: all but 5")},
		"pods that are not ready are waited for": {
			statefulSet(2, 5, 4, 5).leaving(rollout.Amount{Value: 5}), outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "4 of 5 new pods are ready"},
		},
		"a controller that has not seen the hold is waited for": {
			statefulSet(2, 0, 0, 10).With(func(g *given) { g.Workload.Observed = false }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the controller of StatefulSet demo to see how it is to be released"},
		},
		"one that its owner has paused is held": {
			statefulSet(2, 3, 3, 7).leaving(rollout.Amount{Value: 5}).With(func(g *given) { g.Workload.Paused, g.Workload.OwnerPaused = true, true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonWorkloadPaused, Message: "StatefulSet demo is paused by its owner, so its version cannot reach all pods; " +
				"resume it: set its spec.updateStrategy.rollingUpdate.paused to false with kubectl edit statefulset/demo -n shop"},
		},
		"it never goes back": {statefulSet(2, 7, 7, 3).leaving(rollout.Amount{Value: 1}), does("let StatefulSet demo replace pods: all but 3")},
		"a pod that is not ready and of a version that nobody wants is deleted": {
			statefulSet(2, 0, 0, 9).With(func(g *given) {
				g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h0", Revision: "v0", Replicas: 1})
			}), does("replace 1 pods of h0 of StatefulSet demo"),
		},
		"so is one of the stable version where it comes back in one before": {
			statefulSet(2, 0, 0, 10).With(func(g *given) { g.Workload.RevertsTo, g.Workload.Revisions[0].Ready = "h0", 9 }), does("replace 1 pods of h1 of StatefulSet demo"),
		},
		"and where it comes back as it was it is waited for": {
			statefulSet(2, 5, 4, 5).leaving(rollout.Amount{Value: 5}).With(func(g *given) { g.Workload.Revisions[0].Ready = 4 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "4 of 5 new pods are ready"},
		},
		"where that keeps its controller from going on, it is said": {
			statefulSet(2, 0, 0, 10).leaving(rollout.Amount{Value: 5}).With(func(g *given) { g.Workload.MaxUnavailable, g.Workload.Revisions[0].Ready = 1, 9 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "0 of 5 new pods are ready; " +
				"pods of another version that are not ready (1) may keep its controller from going on: see maxUnavailable of StatefulSet demo"},
		},
		"new pods among the first ones are part of the step": {
			statefulSet(2, 2, 2, 8).places(1, 4), does("let StatefulSet demo replace pods: all but 7"),
		},
		"a place without a pod is none of them": {
			statefulSet(2, 3, 3, 6).places(4, 5, 8), does("let StatefulSet demo replace pods: all but 7"),
		},
		"unless a pod that is lost comes back new": {
			statefulSet(2, 3, 3, 6).places(4, 5, 8).With(func(g *given) {
				g.Workload.RevertsTo, g.Workload.Revisions[0].Ordinals = "", []int32{0, 1, 2, 6, 7, 9}
			}), does("let StatefulSet demo replace pods: all but 8"),
		},
		"nor does it let any go then in the place of those that are lost": {
			statefulSet(2, 0, 0, 1).leaving(rollout.Amount{Value: 5}).With(func(g *given) { g.Workload.RevertsTo, g.Workload.Revisions[0].Ordinals = "", []int32{0} }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "0 of 5 new pods are ready"},
		},
		"the Service waits for stable pods that come back": {
			statefulSet(2, 5, 5, 0).leaving(rollout.Amount{Value: 5}).places(5, 6, 7, 8, 9), does("create Service demo-canary selecting h2"),
		},
		"and is opened where none does": {
			statefulSet(2, 5, 5, 0).leaving(rollout.Amount{Value: 5}).places(5, 6, 7, 8, 9).With(func(g *given) { g.Workload.RevertsTo = "" }), does("unpin Service demo"),
		},
		"where they are all that the step wants no other one comes": {
			statefulSet(2, 5, 4, 5).places(0, 1, 2, 3, 4), does("let StatefulSet demo replace pods: all but 10"),
		},
		"and they are waited for": {
			statefulSet(2, 5, 4, 5).places(0, 1, 2, 3, 4).leaving(rollout.Amount{Value: 10}).With(func(g *given) { g.Workload.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + "4 of 5 new pods are ready"},
		},
		"new pods that go with a workload that is scaled down are no part of the step": {
			statefulSet(2, 3, 3, 7).places(7, 8, 9).With(func(g *given) { g.Workload.DesiredReplicas = 4 }), does("let StatefulSet demo replace pods: all but 2"),
		},
		"a percentage stays one where the kind takes it": {
			statefulSet(2, 0, 0, 10).With(func(g *given) { g.Workload.PercentPartition = true }), does("let StatefulSet demo replace pods: all but 50%"),
		},
		"a pause of the Rollout holds it in the middle": {
			statefulSet(2, 3, 2, 7).leaving(rollout.Amount{Value: 5}).With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"hold StatefulSet demo"}, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
	})
}

func TestPlanDeletesPods(t *testing.T) {
	t.Parallel()
	daemonSet := func(step, pods, ready, old int32) *given {
		return replacing(step, pods, ready, old).by("DaemonSet", rollout.MechanismOnDelete)
	}
	const upgrades = "Rollout is in step(2/3), and upgrade workload to new version: "
	does := func(actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Actions: actions, Message: "Rollout is in Progressing"}
	}
	waits := func(ready string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Message: upgrades + ready + " of 5 new pods are ready"}
	}
	runPlanCases(t, map[string]planCase{
		"as many go as their owner lets be missing":     {daemonSet(2, 0, 0, 10), does("replace 2 pods of h1 of DaemonSet demo")},
		"not more than the step wants":                  {daemonSet(2, 4, 4, 6), does("replace 1 pods of h1 of DaemonSet demo")},
		"what is deleted counts as coming":              {daemonSet(2, 4, 4, 5), waits("4")},
		"new pods that are not ready use the budget up": {daemonSet(2, 2, 0, 8), waits("0")},
		"old pods that are not ready go all the same": {
			daemonSet(2, 2, 0, 8).With(func(g *given) { g.Workload.Revisions[0].Ready = 7 }), does("replace 1 pods of h1 of DaemonSet demo"),
		},
		"pods that are ready and not yet available are waited for": {
			daemonSet(2, 2, 2, 8).With(func(g *given) { g.Workload.Available = 8 }), waits("2"),
		},
		"pods of a version that nobody wants go before stable ones": {
			daemonSet(2, 0, 0, 8).With(func(g *given) {
				g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h0", Revision: "v0", Replicas: 2, Ready: 2})
			}), does("replace 2 pods of h0 of DaemonSet demo"),
		},
		"a step that is reached goes on to its Service": {daemonSet(2, 5, 5, 5), does("create Service demo-canary selecting h2")},
	})
}

func TestPlanTakesBackWhatIsNoDeployment(t *testing.T) {
	t.Parallel()
	aborted := func(kind string, lever rollout.UpdateMechanism, pods, ready, old int32) *given {
		g := replacing(2, pods, ready, old).by(kind, lever)
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	const stopped = "Stopped at the release was aborted. All traffic is on the stable version. "
	does := func(next string, actions ...string) outcome {
		return outcome{State: rollout.StateAborted, Step: 2, Actions: actions, Message: stopped + next}
	}
	const again = "Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	const back = "The workload gets its stable version back."
	runPlanCases(t, map[string]planCase{
		"new pods are deleted as far as the owner allows, and come back stable": {
			aborted("StatefulSet", rollout.MechanismPartition, 5, 4, 5), does(again, "replace 2 pods of h2 of StatefulSet demo"),
		},
		"a partition that lets them come is raised first": {
			aborted("StatefulSet", rollout.MechanismPartition, 5, 5, 5).leaving(rollout.Amount{Value: 5}), does(again, "hold StatefulSet demo"),
		},
		"nothing is left to do": {aborted("StatefulSet", rollout.MechanismPartition, 0, 0, 10), does(again)},
		"where they would come back new the template goes back": {
			aborted("StatefulSet", rollout.MechanismPartition, 10, 10, 0).With(func(g *given) { g.Workload.RevertsTo = "" }),
			outcome{State: rollout.StateAborted, Step: 2, Actions: []string{"restore the template of h1 on StatefulSet demo"}, Message: "Stopped at the release was aborted. " + rollout.TrafficUnready + " " + back},
		},
		"so it does where a pod that is lost would come back new": {
			aborted("DaemonSet", rollout.MechanismOnDelete, 0, 0, 10), does(back, "restore the template of h1 on DaemonSet demo"),
		},
	})
}

func TestWhatIsReleasedAtRest(t *testing.T) {
	t.Parallel()
	old := func(g *given) {
		g.Workload.Revision, g.Workload.Updated = "v2", 8
		g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 2, Ready: 2}, {Hash: "h2", Revision: "v2", Replicas: 8, Ready: 8}}
	}
	for sentence, test := range map[string]struct {
		change func(*given)
		want   rollout.State
	}{
		"pods of an older version are a release that came too early": {func(*given) {}, rollout.StateInitializing},
		"not those that the owner's partition leaves":                {func(g *given) { g.Workload.OwnerPartition = 2 }, rollout.StateIdle},
		"nor those that the owner deletes himself":                   {func(g *given) { g.Workload.OwnerOnDelete = true }, rollout.StateIdle},
		"nor where such a one was held":                              {func(g *given) { g.Workload.OwnerOnDelete, g.Workload.Held = true, true }, rollout.StateIdle},
	} {
		g := aRollout().inPlace().by("StatefulSet", rollout.MechanismPartition).With(old).With(test.change)
		if got := rollout.State(Plan(g.Seen, g.now).Status.Sluice.State); got != test.want {
			t.Errorf("%s: it is in %s, not in %s", sentence, got, test.want)
		}
	}
}

func TestPlanWaitsForWhoeverDeletesPods(t *testing.T) {
	t.Parallel()
	g := replacing(3, 8, 8, 2).by("StatefulSet", rollout.MechanismPartition).With(func(g *given) {
		g.Workload.OwnerOnDelete, g.Workload.Updated, g.Workload.Held, g.Workload.TakenOver, g.Workload.Paused = true, 8, false, false, false
	}).Cleared().Finalising(api.FinaliseSuccess)
	runPlanCases(t, map[string]planCase{
		"an owner who asked for that during the release is told": {g, outcome{State: rollout.StateFinalising, Step: 3, Stalled: rollout.ReasonInvalidSpec,
			Message: "StatefulSet demo has the update type OnDelete, so a pod gets the version when a user deletes it: 8 of 10 pods have it; delete the others, " +
				"or set its spec.updateStrategy.type to RollingUpdate: kubectl edit statefulset/demo -n shop"}},
	})
}

func TestAPartitionIsAPercentageWhereThatIsExact(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		replicas, pods int32
		step           rollout.Amount
		want           rollout.Amount
	}{
		"half of ten":                        {10, 5, rollout.Amount{Value: 50, Percent: true}, rollout.Amount{Value: 50, Percent: true}},
		"a third of three":                   {3, 1, rollout.Amount{Value: 33, Percent: true}, rollout.Amount{Value: 66, Percent: true}},
		"one of seven":                       {7, 1, rollout.Amount{Value: 10, Percent: true}, rollout.Amount{Value: 85, Percent: true}},
		"a share that no percentage is":      {1000, 667, rollout.Amount{Value: 67, Percent: true}, rollout.Amount{Value: 333}},
		"a step in pods":                     {10, 5, rollout.Amount{Value: 5}, rollout.Amount{Value: 5}},
		"all":                                {10, 10, rollout.Amount{Value: 100, Percent: true}, rollout.Amount{Value: 0, Percent: true}},
		"of a workload that was scaled to 0": {0, 0, rollout.Amount{Value: 50, Percent: true}, rollout.Amount{}},
	} {
		p := &planner{seen: rollout.Seen{Spec: rollout.Spec{Steps: []rollout.Step{{Replicas: test.step}}}, Workload: &rollout.Workload{DesiredReplicas: test.replicas, PercentPartition: true}}, m: &api.SluiceStatus{Step: 1}}
		if diff := cmp.Diff(test.want, p.partitionFor(test.pods)); diff != "" {
			t.Errorf("%s:\n%s", sentence, diff)
		}
	}
}

func TestAPartitionKeepsPodsAlthoughNewOnesAreAboutToGo(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct{ replicas, older, newer, want int32 }{
		"three nodes of eight are left":               {3, 4, 4, 1},
		"as many new pods as the step wants":          {3, 1, 2, 1},
		"those that came before the release stay new": {5, 1, 4, 1},
		"of one too many":                             {4, 1, 4, 1},
	} {
		p := &planner{seen: rollout.Seen{Spec: rollout.Spec{Steps: []rollout.Step{{Replicas: rollout.Amount{Value: 2}}}}, Workload: &rollout.Workload{DesiredReplicas: test.replicas, Revision: "v2", Revisions: []rollout.Revision{
			{Hash: "h1", Revision: "v1", Replicas: test.older}, {Hash: "h2", Revision: "v2", Replicas: test.newer},
		}}}, m: &api.SluiceStatus{Step: 1}}
		if got := p.partitionFor(2); got != (rollout.Amount{Value: test.want}) {
			t.Errorf("%s: %s, want %d", sentence, got, test.want)
		}
	}
}
