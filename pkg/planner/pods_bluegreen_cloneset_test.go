package planner

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// roomFor is a blue-green release of v2 of a CloneSet that is about to reach a step. It has so many new pods, some of them ready, in parallel to ten
// old pods. It is surged, and has room for the new pods.
func roomFor(step, pods, ready int32) *given {
	g := besideStable(step, pods, ready)
	g.Spec.Workload = rollout.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "demo"}
	w := g.Workload
	w.UpdateMechanism, w.PercentPartition, w.RevertsTo = rollout.MechanismPartition, true, "h1"
	w.Surged, w.ReplicaSetsFrozen, w.Paused = true, pods == 0, pods == 0
	w.Budget, w.Partition = rollout.Budget{Surge: pods}, rollout.Amount{Value: 10}
	if pods == 0 {
		w.Partition = rollout.Amount{Value: 100, Percent: true}
	}
	return g
}

func withSet(i int, change func(*rollout.Revision)) func(*given) {
	return func(g *given) { change(&g.Workload.Revisions[i]) }
}

// stranger adds an unknown version with two pods.
func stranger(ready int32) func(*given) {
	return func(g *given) {
		g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h3", Revision: "v3", Replicas: 2, Ready: ready})
	}
}

func TestPlanMakesRoomInACloneSet(t *testing.T) {
	t.Parallel()
	const progressing = "Rollout is in Progressing"
	upgrade := func(actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Actions: actions, Message: progressing}
	}
	says := func(message string) outcome { return outcome{State: rollout.StateUpgrade, Step: 2, Message: message} }
	narrow := func(g *given) { g.Workload.Surged = false }
	lost := func(g *given) { g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = 0, 0 }
	runPlanCases(t, map[string]planCase{
		"autoscalers are taken off first": {roomFor(2, 0, 0).scaler(false), upgrade("disable HorizontalPodAutoscaler demo")},
		"it is widened":                   {roomFor(2, 0, 0).With(narrow), upgrade("take over CloneSet demo")},
		"its controller is to see it": {
			roomFor(2, 0, 0).With(func(g *given) { g.Workload.Observed = false }), says("waiting for the controller of CloneSet demo to see how it is to be released"),
		},
		"the new pods come beside": {roomFor(2, 0, 0), upgrade("let CloneSet demo replace pods: 0% and 5 more")},
		"until they are ready they are waited for": {
			roomFor(2, 5, 4), says("Rollout is in step(2/3), and upgrade workload to new version: 4 of 5 new pods are ready"),
		},
		"then they get traffic": {roomFor(2, 5, 5), upgrade("create Service demo-canary selecting h2")},
		"not before stable ones that were lost are back": {
			roomFor(2, 5, 5).With(withSet(0, func(s *rollout.Revision) { s.Replicas = 9 })), says("Rollout is in step(2/3), and upgrade workload to new version: 5 of 5 new pods are ready"),
		},
		"a step back moves no pods": {roomFor(1, 5, 5), outcome{State: rollout.StateUpgrade, Step: 1,
			Actions: []string{"create Service demo-canary selecting h2"}, Message: progressing}},
		"scaled by its owner there is room beside other replicas": {
			roomFor(2, 5, 5).With(func(g *given) { g.Workload.DesiredReplicas = 20 }), upgrade("let CloneSet demo replace pods: 0% and 10 more"),
		},
		"scaled down the stable pods too many go": {
			roomFor(2, 5, 5).With(func(g *given) { g.Workload.DesiredReplicas, g.Workload.Partition = 8, rollout.Amount{Value: 8} }), upgrade("replace 2 pods of h1 of CloneSet demo"),
		},
		"scaled to 0 it is no longer widened": {roomFor(2, 5, 5).With(func(g *given) { g.Workload.DesiredReplicas, g.Workload.Paused = 0, true }), upgrade("pause CloneSet demo")},
		"pods of a third version are replaced first, as far as its owner lets pods be missing": {
			roomFor(2, 0, 0).With(withSet(0, func(s *rollout.Revision) { s.Replicas, s.Ready = 8, 8 })).With(stranger(1)), upgrade("replace 2 pods of h3 of CloneSet demo"),
		},
		"one by one where some are missing": {
			roomFor(2, 0, 0).With(withSet(0, func(s *rollout.Revision) { s.Replicas, s.Ready = 8, 6 })).With(stranger(2)),
			says("waiting for pods of the stable version to replace the pods of h3"),
		},
		"a pause of the Rollout holds it": {
			roomFor(2, 3, 3).With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"hold CloneSet demo"}, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
		"a third version that comes back in the place of stable pods stops it": {
			roomFor(2, 5, 5).With(func(g *given) { g.Workload.RevertsTo = "h3" }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonStableMissing, Message: "CloneSet demo makes no more pods of the stable version h1 but those of h3, as after it was scaled to 0 " +
				"during its release; end the release, which gives the stable version back: sluice abort demo -n shop"},
		},
		"a new version that runs everywhere has nothing beside it": {
			roomFor(2, 5, 5).With(lost).With(func(g *given) { g.Workload.RevertsTo = "" }),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"hold CloneSet demo"}, Message: "Workload is continuous release"},
		},
		"nor is a version without pods the stable one where its controller knows no other": {
			roomFor(1, 0, 0).With(func(g *given) {
				g.Workload.RevertsTo, g.Workload.Revisions[0].Revision = "", ""
				g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h2", Revision: "v2"})
			}).In(rollout.StateIdle),
			outcome{State: rollout.StateUpgrade, Step: 1, Stalled: rollout.ReasonStableMissing, Message: "CloneSet demo makes no more pods of the stable version h1 but the pods of the version in its template, " +
				"as after it was scaled to 0 during its release; end the release, which gives the stable version back: sluice abort demo -n shop"},
		},
		"another version is refused": {
			roomFor(2, 5, 5).With(func(g *given) { g.Workload.Revision, g.Workload.Paused = "v3", true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonNewVersionRefused, Message: "new version releasing detected in the progress of blue-green release, please rollback first: " +
				"apply the manifest of the stable version, or end the release under way: sluice abort demo -n shop"},
		},
	})
}

func TestPlanTakesTheRoomAway(t *testing.T) {
	t.Parallel()
	done := func() *given { return roomFor(3, 10, 10).routedTo(3, 10) }
	restored := func(g *given) {
		g.unrouted()
		g.Status.Sluice.RouteDigest = ""
	}
	backwards := func(g *given) {
		g.Workload.ReplicaSetsFrozen, g.Workload.Paused, g.Workload.Budget = true, true, rollout.Budget{}
	}
	aborted := func() *given {
		g := roomFor(2, 5, 5).With(func(g *given) { g.Workload.Paused = true })
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	noNew := withSet(1, func(s *rollout.Revision) { s.Replicas, s.Ready = 0, 0 })
	const closing, turned = "Rollout has been completed and some closing work is being done", "Rollout progressing has been canceled"
	const stopped = "Stopped at the release was aborted. All traffic is on the stable version. Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	ends := func(message string, actions ...string) outcome {
		return outcome{State: rollout.StateFinalising, Step: 3, Actions: actions, Message: message}
	}
	does := func(actions ...string) outcome {
		return outcome{State: rollout.StateAborted, Step: 2, Actions: actions, Message: stopped}
	}
	runPlanCases(t, map[string]planCase{
		"a success with pods missing brings them first": {
			roomFor(3, 8, 8).routedTo(3, 8).Finalising(api.FinaliseSuccess), ends(closing, "let CloneSet demo replace pods: 0% and 10 more"),
		},
		"then lets the workload go": {
			done().routedTo(4, 10).With(func(g *given) { g.StableService.Hash = "" }).Finalising(api.FinaliseSuccess), ends(closing, "resume CloneSet demo"),
		},
		"a newer version before that is released from the stable one": {
			done().routedTo(4, 10).With(func(g *given) { g.Workload.Revision, g.Workload.Paused, g.StableService.Hash = "v3", true, "" }).Finalising(api.FinaliseSuccess),
			ends("Workload is continuous release", "restore VirtualService demo"),
		},
		"and so where its controller makes pods of none but the newer one": {
			done().routedTo(4, 10).With(func(g *given) {
				g.Workload.Revision, g.Workload.Paused, g.Workload.RevertsTo, g.StableService.Hash = "v3", true, "", ""
				g.Workload.Revisions[1].Replicas = 8
			}).Finalising(api.FinaliseSuccess),
			ends("Workload is continuous release", "restore VirtualService demo"),
		},
		"which the next release starts from, whether or not the stable one is known still": {
			done().With(restored).With(func(g *given) {
				g.Workload.Revision, g.Workload.Paused, g.Workload.RevertsTo, g.Workload.Revisions = "v3", true, "h2", g.Workload.Revisions[1:]
				g.CanaryService, g.Stable = nil, selected("h2", 10)
			}).Finalising(api.FinaliseContinuous),
			outcome{State: rollout.StateInitializing, Step: 1, Message: "waiting for the routes of step 4 to be rendered"},
		},
		"a success of what ran before lets the workload go as it is": {
			roomFor(3, 0, 0).With(stranger(2)).With(func(g *given) {
				g.Workload.Revision, g.Workload.RevertsTo, g.Status.Sluice.CanaryRevision, g.Workload.Revisions[0].Replicas = "v1", "", "v1", 8
			}).Finalising(api.FinaliseSuccess).Planned(), ends(closing, "resume CloneSet demo"),
		},
		"a rollback takes the room away": {done().RolledBack().With(restored).Finalising(api.FinaliseRollback), ends(turned, "freeze CloneSet demo")},
		"then the new pods": {
			done().RolledBack().With(restored).With(backwards).Finalising(api.FinaliseRollback), ends(turned, "replace 10 pods of h2 of CloneSet demo"),
		},
		"and lets the workload go when they have gone": {
			done().RolledBack().With(restored).With(backwards).With(noNew).Finalising(api.FinaliseRollback), ends(turned, "resume CloneSet demo"),
		},
		"or when its controller has to bring stable pods back": {
			done().RolledBack().With(restored).With(withSet(0, func(s *rollout.Revision) { s.Replicas = 9 })).Finalising(api.FinaliseRollback), ends(turned, "resume CloneSet demo"),
		},
		"aborted, the new pods are kept for a while": {aborted(), does()},
		"then they have no room":                     {aborted().After(30 * time.Second), does("freeze CloneSet demo")},
		"and go":                                     {aborted().With(backwards).After(30 * time.Second), does("replace 5 pods of h2 of CloneSet demo")},
		"as far as its owner lets pods be missing": {
			aborted().With(backwards).With(withSet(0, func(s *rollout.Revision) { s.Ready = 5 })).After(30 * time.Second), does("replace 2 pods of h2 of CloneSet demo"),
		},
		"then the workload is no longer widened": {aborted().With(backwards).With(noNew), does("pause CloneSet demo")},
		"and autoscalers come back": {
			aborted().With(backwards).With(noNew).With(func(g *given) { g.Workload.Surged = false }).scaler(true), does("restore HorizontalPodAutoscaler demo"),
		},
	})
}
