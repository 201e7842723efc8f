package planner

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// returning is a StatefulSet of ten pods that goes back to v1 in batches and is about to reach a step. all is the number of pods that had to go back
// at its beginning. left are the ordinals of the pods that still have to.
func returning(step, all int32, left ...int32) *given {
	g := replacing(step, int32(len(left)), int32(len(left)), 10-int32(len(left))).by("StatefulSet", rollout.MechanismPartition).inBatches().RolledBack()
	g.Workload.RevertsTo, g.Workload.HasOrdinals, g.Workload.Partition = "", true, rollout.Amount{Value: 32767}
	g.Workload.Revisions[1].Ordinals = left
	m := g.Status.Sluice
	m.RollbackReplicas, m.CanaryRevision = all, "v1"
	g.Status.CanaryStatus.CanaryRevision, g.Status.CanaryStatus.ObservedRolloutID = "v1", "rollback-v1"
	return g.In(rollout.StateUpgrade)
}

// inBatches asks for rollbacks in batches, without traffic routing.
func (g *given) inBatches() *given {
	g.Spec.RollbackInBatch, g.Spec.Routing, g.Backends, g.Routes = true, nil, nil, nil
	for i := range g.Spec.Steps {
		g.Spec.Steps[i].Weight, g.Spec.Steps[i].Matches = nil, nil
	}
	g.replan()
	g.Status.Sluice.PlanHash = g.Spec.Hash
	g.Status.CanaryStatus.RolloutHash = g.Spec.Hash
	return g
}

// By the contract, the pods that need no update come in addition to a step, whose share refers to the others.
func TestAStepOfARollbackInBatchesIsAboutThePodsThatGoBack(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		replicas, back int32
		step           rollout.Amount
		stay, stable   int32
	}{
		"a fifth of three of ten":                        {10, 3, rollout.Amount{Value: 20, Percent: true}, 2, 8},
		"half of three":                                  {10, 3, rollout.Amount{Value: 50, Percent: true}, 1, 9},
		"a share of less than all leaves one":            {10, 3, rollout.Amount{Value: 90, Percent: true}, 1, 9},
		"of a single one nothing is left":                {10, 1, rollout.Amount{Value: 20, Percent: true}, 0, 10},
		"all of three":                                   {10, 3, rollout.Amount{Value: 100, Percent: true}, 0, 10},
		"two pods of three":                              {10, 3, rollout.Amount{Value: 2}, 1, 9},
		"more pods than there are to go back":            {10, 3, rollout.Amount{Value: 8}, 0, 10},
		"half of all":                                    {10, 10, rollout.Amount{Value: 50, Percent: true}, 5, 5},
		"a workload that was scaled up":                  {20, 3, rollout.Amount{Value: 20, Percent: true}, 2, 18},
		"one that was scaled down to less than may stay": {1, 3, rollout.Amount{Value: 20, Percent: true}, 2, 0},
	} {
		p := &planner{
			seen: rollout.Seen{Spec: rollout.Spec{Style: rollout.StylePartition, Steps: []rollout.Step{{Replicas: test.step}}}, Workload: &rollout.Workload{DesiredReplicas: test.replicas}},
			m:    &api.SluiceStatus{Step: 1, RollbackReplicas: test.back},
		}
		if p.podsLeftByStep() != test.stay || p.desiredNewPods() != test.stable {
			t.Errorf("%s: %d stay and %d are to be stable, not %d and %d", sentence, p.podsLeftByStep(), p.desiredNewPods(), test.stay, test.stable)
		}
		if spared := test.replicas - test.back; spared > 0 && p.desiredNewPods() != p.podsOfStep(test.back)+spared {
			t.Errorf("%s: by the contract %d are to be stable", sentence, p.podsOfStep(test.back)+spared)
		}
	}
}

func TestAPartitionThatGoesBack(t *testing.T) {
	t.Parallel()
	hold := rollout.Amount{Value: 32767}
	for sentence, test := range map[string]struct {
		left  []int32
		stays int32
		is    rollout.Amount
		want  rollout.Amount
	}{
		"the last one goes":                                 {[]int32{7, 8, 9}, 2, hold, rollout.Amount{Value: 9}},
		"and the one before it":                             {[]int32{7, 8}, 1, rollout.Amount{Value: 9}, rollout.Amount{Value: 8}},
		"in the end nothing holds":                          {[]int32{7}, 0, rollout.Amount{Value: 8}, rollout.Amount{}},
		"a step that is reached keeps its partition":        {[]int32{7, 8}, 2, rollout.Amount{Value: 9}, rollout.Amount{Value: 9}},
		"one that was lost counts for the one to go":        {[]int32{8, 9}, 2, rollout.Amount{Value: 9}, rollout.Amount{Value: 10}},
		"stable pods between them do not count":             {[]int32{2, 5, 9}, 1, hold, rollout.Amount{Value: 3}},
		"without any the partition is left alone":           {nil, 0, hold, hold},
		"a jump back stops what has not gone yet":           {[]int32{7, 8}, 2, rollout.Amount{Value: 8}, rollout.Amount{Value: 9}},
		"a pod that is about to go does not hold its place": {[]int32{7, 8, math.MaxInt32 - 1}, 3, rollout.Amount{Value: 9}, rollout.Amount{Value: 9}},
		"the places of a workload that grows are as good":   {[]int32{0, 1, 2}, 1, hold, rollout.Amount{Value: 1}},
	} {
		g := returning(1, 3, test.left...).leaving(test.is)
		p := newPlanner(g.Seen, g.now)
		if diff := cmp.Diff(test.want, p.rollbackPartition(test.stays)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
		g.Workload.HasOrdinals = false
		if got, want := newPlanner(g.Seen, g.now).rollbackPartition(test.stays), min(test.stays, int32(len(test.left))); got != (rollout.Amount{Value: want}) {
			t.Errorf("%s: where pods have no order %s are left, not %d", sentence, got, want)
		}
	}
}

func TestPlanGoesBackInBatches(t *testing.T) {
	t.Parallel()
	does := func(step int32, actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: step, Actions: actions, Message: "Rollout is in Progressing"}
	}
	stuck := func(g *given) { g.Workload.Revisions[1].Ready = 0 }
	const waits = " of a rollback in batches: "
	runPlanCases(t, map[string]planCase{
		"a step lets as many go as it says": {returning(1, 4, 6, 7, 8, 9), does(1, "let StatefulSet demo replace pods: all but 9")},
		"of a share rounded up":             {returning(2, 3, 7, 8, 9), does(2, "let StatefulSet demo replace pods: all but 8")},
		"pods that come back are waited for": {
			returning(1, 4, 6, 7, 8).leaving(rollout.Amount{Value: 9}).With(func(g *given) { g.Workload.Revisions[0].Ready = 6 }),
			outcome{State: rollout.StateUpgrade, Step: 1, Message: "Rollout is in step(1/3)" + waits + "6 of 7 pods of the stable version are ready"},
		},
		"a reached step pauses as any other": {
			returning(1, 4, 6, 7, 8).leaving(rollout.Amount{Value: 9}), outcome{State: rollout.StatePaused, Step: 1, Message: confirm1},
		},
		"those that are not ready are the first to go, as part of the step": {
			returning(2, 3, 7, 8, 9).With(stuck), does(2, "replace 2 pods of h2 of StatefulSet demo"),
		},
		"and meanwhile no other goes": {
			returning(1, 3, 7, 8, 9).leaving(rollout.Amount{Value: 9}).With(stuck), does(1, "let StatefulSet demo replace pods: all but 10"),
		},
		"but none beyond the step": {
			returning(1, 4, 6, 7, 8).leaving(rollout.Amount{Value: 9}).With(stuck), outcome{State: rollout.StatePaused, Step: 1, Message: confirm1},
		},
		"where they would come back as they were they are left alone": {
			returning(1, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9).With(stuck).With(func(g *given) { g.Workload.RevertsTo = "h2" }),
			does(1, "let StatefulSet demo replace pods: all but 9"),
		},
		"pods that its controller has made more of go with the steps": {
			returning(2, 2, 6, 7, 8, 9), does(2, "let StatefulSet demo replace pods: all but 8"),
		},
		"a workload scaled down to what may stay has reached the step": {
			returning(1, 3, 0, 1).leaving(rollout.Amount{Value: 9}).With(func(g *given) {
				g.Workload.DesiredReplicas, g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = 2, 0, 0
			}),
			outcome{State: rollout.StatePaused, Step: 1, Message: confirm1},
		},
		"one that its owner has paused is held": {
			returning(1, 3, 7, 8, 9).leaving(rollout.Amount{Value: 9}).With(func(g *given) { g.Workload.Paused, g.Workload.OwnerPaused = true, true }),
			outcome{State: rollout.StateUpgrade, Step: 1, Stalled: rollout.ReasonWorkloadPaused, Message: "StatefulSet demo is paused by its owner, so its version cannot reach all pods; " +
				"resume it: set its spec.updateStrategy.rollingUpdate.paused to false with kubectl edit statefulset/demo -n shop"},
		},
	})
}

// The table has each end of a rollback with its reason.
func TestWhatBecomesOfARollback(t *testing.T) {
	t.Parallel()
	taken := func(change func(*given)) *given {
		g := replacing(2, 5, 5, 5).by("StatefulSet", rollout.MechanismPartition).inBatches().Paused().RolledBack().With(func(g *given) {
			g.Workload.RevertsTo, g.Workload.UnlabelledKept = "", 5
		})
		return g.With(change)
	}
	const atOnce = canceling + ". All pods go back at once, and the annotation rollouts.kruise.io/rollback-in-batch has no effect: "
	for sentence, test := range map[string]struct {
		given   *given
		reasons string // the reasons of the transitions
		message string // the message of the first transition
		to      rollout.State
		action  string
	}{
		"in batches it is a release that begins with step 1": {
			taken(func(*given) {}), "RollbackInBatch ReleaseStarted", "The workload has been rolled back, and its pods go back in batches, from step 1 on",
			rollout.StateInitializing, "mark the pods that need no update",
		},
		"not before its controller has seen that none may go": {
			taken(func(g *given) { g.Workload.Observed = false }), "RollbackInBatch ReleaseStarted",
			"The workload has been rolled back, and its pods go back in batches, from step 1 on", rollout.StateInitializing, "",
		},
		"marked, it begins": {
			taken(func(g *given) { g.Workload.UnlabelledKept = 0 }), "RollbackInBatch ReleaseStarted StepStarted Upgrade",
			"The workload has been rolled back, and its pods go back in batches, from step 1 on", rollout.StateUpgrade, "let StatefulSet demo replace pods: all but 4",
		},
		"without the annotation it is at once": {
			taken(func(g *given) { g.Spec.RollbackInBatch = false }), "Rollback", canceling, rollout.StateFinalising, "resume StatefulSet demo",
		},
		"of a Deployment it is at once": {
			taken(func(g *given) { g.Spec.Workload.Kind = "Deployment" }), "Rollback",
			atOnce + "it is for StatefulSets and CloneSets, and Deployment demo is neither", rollout.StateFinalising, "resume Deployment demo",
		},
		"of a DaemonSet it is at once": {
			taken(func(g *given) { g.Spec.Workload.Kind = "DaemonSet" }), "Rollback",
			atOnce + "it is for StatefulSets and CloneSets, and DaemonSet demo is neither", rollout.StateFinalising, "resume DaemonSet demo",
		},
		"where traffic is routed it is at once": {
			taken(func(g *given) { g.Spec.TrafficRouting = "demo" }), "Rollback",
			atOnce + "traffic is routed, and all of it leaves the version that is taken back first", rollout.StateFinalising, "resume StatefulSet demo",
		},
		"with the stable version still beside the new one it is at once": {
			taken(func(g *given) { g.Spec.Style, g.Spec.Workload.Kind = rollout.StyleBlueGreen, "CloneSet" }), "Rollback",
			atOnce + "the pods of the stable version still run in parallel with the new ones", rollout.StateFinalising, "resume CloneSet demo",
		},
		"without a pod of the new version there is nothing to go back": {
			taken(func(g *given) { g.Workload.Revisions = g.Workload.Revisions[:1] }), "Rollback", canceling, rollout.StateFinalising, "resume StatefulSet demo",
		},
		"of what was aborted it is at once": {
			taken(func(g *given) { g.In(rollout.StateAborted) }), "Rollback", canceling, rollout.StateFinalising, "resume StatefulSet demo",
		},
		"while the last pods are let go it is one": {
			taken(func(g *given) { g.Finalising(api.FinaliseSuccess) }), "RollbackInBatch ReleaseStarted",
			"The workload has been rolled back, and its pods go back in batches, from step 1 on", rollout.StateInitializing, "mark the pods that need no update",
		},
		"an abort of one in batches has all go back at once": {
			returning(1, 3, 7, 8).With(func(g *given) {
				g.Status.Command = &api.Command{Action: api.CommandAbort, Epoch: g.Status.Sluice.Epoch, Actor: "admin"}
			}), "Rollback", "step 1 of 3: aborted by admin: all pods go back to the stable version at once", rollout.StateFinalising, "resume StatefulSet demo",
		},
		"so has whoever takes the annotation away": {
			returning(1, 3, 7, 8).With(func(g *given) { g.Spec.RollbackInBatch = false }), "Rollback", canceling, rollout.StateFinalising, "resume StatefulSet demo",
		},
		"the version that was taken back is a release of its own": {
			returning(1, 3, 7, 8).HeldAt("v2").With(func(g *given) { g.Workload.RevertsTo = "h1" }), "Continuous ReleaseStarted StepStarted Upgrade", continuous, rollout.StateUpgrade, "let StatefulSet demo replace pods: all but 10",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			g := test.given
			seq := g.Status.Sluice.TransitionSeq
			d := Plan(g.Seen, g.now)
			var reasons []string
			message := ""
			for _, made := range d.Status.Sluice.Transitions {
				if made.Seq > seq {
					reasons = append(reasons, made.Reason)
				}
				if made.Seq == seq+1 {
					message = made.Message
				}
			}
			action := ""
			if len(d.Actions) > 0 {
				action = d.Actions[0].String()
			}
			type end struct {
				Reasons, Message, Action, Stable string
				To                               rollout.State
			}
			got := end{strings.Join(reasons, " "), message, action, d.Status.Sluice.StableRevision, rollout.State(d.Status.Sluice.State)}
			if diff := cmp.Diff(end{test.reasons, test.message, test.action, "h1", test.to}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARollbackInBatchesIsCalledSo(t *testing.T) {
	t.Parallel()
	g := returning(1, 3, 7, 8, 9)
	if got := g.Planned().Status.CanaryStatus.ObservedRolloutID; got != "rollback-v1" {
		t.Errorf("without an id of its owner it is called %q", got)
	}
	m := *g.Status.Sluice
	if got := rollout.ReleaseID("v1.4.1", m); got != "v1.4.1" {
		t.Errorf("with one it is called %q", got)
	}
	if m.RollbackReplicas = 0; rollout.ReleaseID("", m) != "v1" {
		t.Errorf("any other release is called %q", rollout.ReleaseID("", m))
	}
}
