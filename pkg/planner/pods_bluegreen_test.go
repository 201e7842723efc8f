package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// besideStable is a blue-green release of v2 that is about to reach a step, with so many new pods, some of them ready, in parallel to ten old pods.
func besideStable(step, pods, ready int32) *given {
	g := aRollout()
	g.Spec.Style, g.Spec.AbortDelay = rollout.StyleBlueGreen, 30*time.Second
	g.replan().unrouted()
	all := rollout.Amount{Value: 100, Percent: true}
	for i := range g.Routes {
		g.Routes[i].Steps[g.Spec.LastStep()] = rollout.Rendering{Digest: "d" + all.String()}
	}
	g.HeldAt("v2").Planned()
	g.Status.Sluice.Step = step
	g.StableService.Hash = "h1"
	g.Workload.TakenOver, g.Workload.ReplicaSetsFrozen = true, true
	g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 10, Ready: 10, UnavailableRequested: true, Unavailable: true}}
	if pods > 0 {
		g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h2", Revision: "v2", Replicas: pods, Ready: ready, UnavailableRequested: true, Unavailable: true})
	}
	return g.In(rollout.StateUpgrade)
}

// surging lets the controller work with a surge in percent; with resting, the workload has reached that surge.
func (g *given) surging(percent int32) *given {
	g.Workload.ReplicaSetsFrozen, g.Workload.Paused, g.Workload.Budget = false, false, rollout.Budget{SurgePercent: percent}
	return g
}

func (g *given) resting(percent int32) *given {
	g.surging(percent).Workload.Paused = true
	return g
}

// routedTo routes a step, with so many endpoints behind the canary Service.
func (g *given) routedTo(step, endpoints int32) *given {
	g.CanaryService = &rollout.Service{UID: "t", Ours: true, Hash: "h2"}
	g.CanaryEndpoints = endpoints
	g.Status.Sluice.RouteDigest = "d"
	for i := range g.Routes {
		g.Routes[i].Shaped = true
		for n, r := range g.Routes[i].Steps {
			r.Applied, r.Accepted = n == step, n == step
			g.Routes[i].Steps[n] = r
		}
	}
	return g
}

func (g *given) scaler(parked bool) *given {
	g.Autoscalers = []rollout.Autoscaler{{Object: rollout.Ref{Kind: "HorizontalPodAutoscaler", Name: "demo"}, Disabled: parked}}
	return g
}

func TestPlanBringsPodsBeside(t *testing.T) {
	t.Parallel()
	const progressing = "Rollout is in Progressing"
	upgrade := func(actions ...string) outcome {
		return outcome{State: rollout.StateUpgrade, Step: 2, Actions: actions, Message: progressing}
	}
	stable := func(change func(*rollout.Revision)) func(*given) {
		return func(g *given) { change(&g.Workload.Revisions[0]) }
	}
	runPlanCases(t, map[string]planCase{
		"autoscalers are taken off first": {besideStable(2, 0, 0).scaler(false), upgrade("disable HorizontalPodAutoscaler demo")},
		"the workload is parked, and its controller leaves it alone": {
			besideStable(2, 0, 0).scaler(true).With(func(g *given) { g.Workload.TakenOver = false }), upgrade("take over Deployment demo"),
		},
		"the stable pods never count as complete": {
			besideStable(2, 0, 0).With(stable(func(s *rollout.Revision) { s.UnavailableRequested, s.Unavailable = false, false })), upgrade("hold h1 of Deployment demo unavailable"),
		},
		"that is waited for": {
			besideStable(2, 0, 0).With(stable(func(s *rollout.Revision) { s.Unavailable = false })),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the controller of Deployment demo to see how it is to be released"},
		},
		"the new pods come as a surge": {besideStable(2, 0, 0), upgrade("let Deployment demo replace pods: 0% and 50% more")},
		"the workload rests as soon as they are there, and needs no pause": {
			besideStable(2, 5, 0).surging(50),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 0 of 5 new pods are ready"},
		},
		"a workload that its owner has paused rests with a pause": {
			besideStable(2, 5, 0).surging(50).With(func(g *given) { g.Workload.OwnerPaused = true }), upgrade("pause Deployment demo"),
		},
		"a workload with more new pods than the step has rests with a pause": {besideStable(2, 6, 0).surging(60), upgrade("pause Deployment demo")},
		"until they are ready they are waited for": {
			besideStable(2, 5, 4).resting(50),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "Rollout is in step(2/3), and upgrade workload to new version: 4 of 5 new pods are ready"},
		},
		"some may be unready where the Rollout says so": {
			besideStable(2, 5, 4).resting(50).With(func(g *given) { g.Spec.FailureThreshold = rollout.Amount{Value: 20, Percent: true} }),
			upgrade("create Service demo-canary selecting h2"),
		},
		"a step in pods is a percentage as well, if one says it": {besideStable(1, 0, 0), outcome{State: rollout.StateUpgrade, Step: 1,
			Actions: []string{"let Deployment demo replace pods: 0% and 10% more"}, Message: progressing}},
		"a step back moves no pods": {besideStable(1, 5, 5).resting(50), outcome{State: rollout.StateUpgrade, Step: 1,
			Actions: []string{"create Service demo-canary selecting h2"}, Message: progressing}},
		"the stable version gets pods back that it has lost": {
			besideStable(2, 5, 5).resting(50).With(stable(func(s *rollout.Revision) { s.Replicas = 8 })), upgrade("freeze Deployment demo"),
		},
		"by its ReplicaSet": {besideStable(2, 5, 5).With(stable(func(s *rollout.Revision) { s.Replicas = 8 })), upgrade("scale h1 of Deployment demo to 10")},
		"pods of a third version go before its controller is at work": {
			besideStable(2, 0, 0).With(func(g *given) {
				g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h3", Revision: "v3", Replicas: 2, Ready: 2})
			}),
			upgrade("scale h3 of Deployment demo to 0"),
		},
		"a pause of the Rollout stops it in the middle": {
			besideStable(2, 3, 3).surging(50).With(func(g *given) { g.Spec.Paused = true }),
			outcome{State: rollout.StateUpgrade, Step: 2, Actions: []string{"pause Deployment demo"}, Message: "Rollout has been paused, you can resume it by kube-cli"},
		},
		"scaled to 0 there is nothing to release": {
			besideStable(2, 0, 0).With(func(g *given) { g.Workload.DesiredReplicas = 0 }),
			outcome{State: rollout.StateUpgrade, Step: 2, Message: "waiting for the workload to have replicas: it is scaled to 0, so there is nothing to release"},
		},
		"a stable version that is gone": {
			besideStable(2, 0, 0).With(func(g *given) { g.Workload.Revisions = nil }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonStableMissing, Message: "The revision of the stable version h1 is gone, so its template cannot be restored; " +
				"apply the manifest of the version that should run: kubectl edit deployment/demo -n shop; or release the new one after all: sluice retry demo -n shop"},
		},
		"another version is refused": {
			besideStable(2, 5, 5).resting(50).With(func(g *given) { g.Workload.Revision = "v3" }),
			outcome{State: rollout.StateUpgrade, Step: 2, Stalled: rollout.ReasonNewVersionRefused, Message: "new version releasing detected in the progress of blue-green release, please rollback first: " +
				"apply the manifest of the stable version, or end the release under way: sluice abort demo -n shop"},
		},
	})
}

func TestTheLastStepOfBlueGreenNeedsAnApproval(t *testing.T) {
	t.Parallel()
	last := func() *given {
		return besideStable(3, 8, 8).resting(80).routedTo(3, 8).With(func(g *given) {
			g.Spec.Steps[2].Replicas = rollout.Amount{Value: 100, Percent: true}
			g.Workload.Revisions[1].Replicas, g.Workload.Revisions[1].Ready, g.CanaryEndpoints = 10, 10, 10
			g.resting(100).replan()
			g.Status.Sluice.PlanHash, g.Status.BlueGreenStatus.RolloutHash = g.Spec.Hash, g.Spec.Hash
		}).Paused()
	}
	runPlanCases(t, map[string]planCase{
		"it waits": {last(), outcome{State: rollout.StatePaused, Step: 3, Message: "Rollout is in step(3/3), and you need manually confirm to enter the next step"}},
		"approved, all traffic goes to the new version": {last().Approved(), outcome{State: rollout.StateFinalising, Step: 3,
			Actions: []string{"route step 4 on VirtualService demo"}, Message: "Rollout has been completed and some closing work is being done"}},
	})
}

func TestPlanEndsABlueGreenRelease(t *testing.T) {
	t.Parallel()
	done := func() *given { return besideStable(3, 10, 10).resting(100).routedTo(3, 10) }
	const closing, turned = "Rollout has been completed and some closing work is being done", "Rollout progressing has been canceled"
	ends := func(message string, actions ...string) outcome {
		return outcome{State: rollout.StateFinalising, Step: 3, Actions: actions, Message: message}
	}
	grace := func(g *given) {
		until := microTime(g.now.Add(time.Second))
		g.Status.Sluice.GraceUntil, g.Status.Sluice.GraceFor = &until, "traffic"
	}
	restored := func(g *given) {
		g.unrouted()
		g.Status.Sluice.RouteDigest = ""
	}
	free := func(g *given) {
		g.Workload.Held, g.Workload.Paused, g.Workload.TakenOver, g.Workload.ReplicaSetsFrozen = false, false, false, false
		g.Workload.Updated, g.Workload.Total = 10, 10
	}
	runPlanCases(t, map[string]planCase{
		"a success with pods missing brings them first": {
			besideStable(3, 8, 8).resting(80).routedTo(3, 8).Finalising(api.FinaliseSuccess), ends(closing, "let Deployment demo replace pods: 0% and 100% more"),
		},
		"a success puts all traffic on the new version": {done().Finalising(api.FinaliseSuccess), ends(closing, "route step 4 on VirtualService demo")},
		"but not where the owner of the route says no": {
			done().With(notAllowed).Finalising(api.FinaliseSuccess), outcome{State: rollout.StateFinalising, Step: 3, Stalled: rollout.ReasonRouteNotAllowed, Message: "the owner says no"},
		},
		"which does not keep it from giving the route back": {
			done().routedTo(4, 10).With(free).With(func(g *given) { g.StableService.Hash, g.Workload.Revisions[0].Replicas = "", 0 }).With(notAllowed).Finalising(api.FinaliseSuccess),
			ends(closing, "restore VirtualService demo"),
		},
		"and does not route again because of older ReplicaSets": {
			done().With(free).With(restored).With(func(g *given) { g.StableService.Hash = "" }).Finalising(api.FinaliseSuccess), ends(closing, "delete Service demo-canary"),
		},
		"then opens the stable Service": {done().routedTo(4, 10).Finalising(api.FinaliseSuccess), ends(closing, "unpin Service demo")},
		"then lets the workload go": {
			done().routedTo(4, 10).With(func(g *given) { g.StableService.Hash = "" }).Finalising(api.FinaliseSuccess), ends(closing, "resume Deployment demo"),
		},
		"keeps the traffic while the old pods go": {
			done().routedTo(4, 10).With(free).With(func(g *given) { g.StableService.Hash, g.Workload.Total = "", 20 }).Finalising(api.FinaliseSuccess),
			ends("waiting for the workload to run its version everywhere: 10 of 10 pods are updated, 10 available"),
		},
		"and gives it back when they have gone": {
			done().routedTo(4, 10).With(free).With(func(g *given) { g.StableService.Hash, g.Workload.Revisions[0].Replicas = "", 0 }).Finalising(api.FinaliseSuccess),
			ends(closing, "restore VirtualService demo"),
		},
		"a newer version meanwhile leaves the one that succeeded alone": {
			done().routedTo(4, 10).With(func(g *given) {
				g.Workload.Revision, g.StableService.Hash, g.Workload.ReplicaSetsFrozen = "v3", "", true
			}).Finalising(api.FinaliseSuccess), ends(closing, "scale h1 of Deployment demo to 0"),
		},
		"where its last pods are not ready the stable ones come back": {
			done().routedTo(4, 10).With(func(g *given) {
				g.Workload.Revision, g.StableService.Hash, g.Workload.ReplicaSetsFrozen = "v3", "", true
				g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready, g.Workload.Revisions[1].Ready = 4, 4, 5
			}).Finalising(api.FinaliseSuccess), ends(closing, "scale h1 of Deployment demo to 10"),
		},
		"scaled to 0 with a newer version, it takes traffic off what will not come back": {
			done().routedTo(4, 10).With(func(g *given) {
				g.Workload.Revision, g.Workload.ReplicaSetsFrozen, g.Workload.DesiredReplicas = "v3", true, 0
			}).Finalising(api.FinaliseSuccess), ends(closing, "restore VirtualService demo"),
		},
		"let go and scaled to 0, it gets no more traffic": {
			done().With(free).With(func(g *given) { g.Workload.DesiredReplicas = 0 }).Finalising(api.FinaliseSuccess), ends(closing, "unpin Service demo"),
		},
		"a rollback takes traffic off first": {done().RolledBack().Finalising(api.FinaliseRollback), ends(turned, "restore VirtualService demo")},
		"spends the grace period": {
			done().RolledBack().With(restored).With(grace).Finalising(api.FinaliseRollback), ends("waiting for traffic"),
		},
		"takes the new pods away": {
			done().RolledBack().With(restored).With(func(g *given) { g.Workload.ReplicaSetsFrozen = true }).Finalising(api.FinaliseRollback), ends(turned, "scale h2 of Deployment demo to 0"),
		},
		"and lets the workload go when they have gone": {
			done().RolledBack().With(restored).With(func(g *given) { g.Workload.Revisions[1].Replicas = 0 }).Finalising(api.FinaliseRollback), ends(turned, "resume Deployment demo"),
		},
		"autoscalers come back last": {
			done().RolledBack().With(restored).With(free).With(func(g *given) {
				g.CanaryService, g.StableService.Hash, g.Workload.Revisions[1].Replicas = nil, "", 0
			}).scaler(true).Finalising(api.FinaliseRollback), ends(turned, "restore HorizontalPodAutoscaler demo"),
		},
		"also one that its owner has put back, for what of ours is on it": {
			done().RolledBack().With(restored).With(free).With(func(g *given) {
				g.CanaryService, g.StableService.Hash, g.Workload.Revisions[1].Replicas = nil, "", 0
			}).scaler(false).With(func(g *given) { g.Autoscalers[0].Marked = true }).Finalising(api.FinaliseRollback), ends(turned, "restore HorizontalPodAutoscaler demo"),
		},
		"a deletion with a version that was refused takes the new pods away first": {
			done().Deleted().With(restored).With(func(g *given) { g.Workload.Revision, g.Workload.ReplicaSetsFrozen = "v3", true }).Finalising(api.FinaliseDeleting),
			ends("Rollout is in terminating", "scale h2 of Deployment demo to 0"),
		},
		"but stops the workload before that if somebody has set it free": {
			done().Deleted().With(restored).With(func(g *given) {
				g.Workload.Revision, g.Workload.ReplicaSetsFrozen, g.Workload.Held, g.Workload.Paused = "v3", true, false, false
			}).Finalising(api.FinaliseDeleting), ends("Rollout is in terminating", "freeze Deployment demo"),
		},
	})
}

// If a newer version replaces a version before its promotion, the executor creates its other pods with its ReplicaSet, after the commit of the
// success.
func TestAReplacedVersionIsCompletedAfterTheCommit(t *testing.T) {
	t.Parallel()
	g := besideStable(1, 1, 1).routedTo(1, 1).Paused().With(func(g *given) { g.Workload.Revision = "v3" })
	g.Workload.Revisions[0].Replicas, g.Workload.Revisions[0].Ready = 9, 9 // one pod went before the hold, so the stable version is incomplete
	d := Plan(g.Told(api.CommandPromote).Seen, g.now)
	if d.Status.Sluice.State != string(rollout.StateFinalising) || fmt.Sprint(d.Actions) != "[scale h2 of Deployment demo to 10]" || !d.CommitFirst {
		t.Errorf("commit first: %t, in state %s for %s: %s", d.CommitFirst, d.Status.Sluice.State, d.Status.Sluice.FinaliseReason, d.Actions)
	}
}

func TestPlanAbortsABlueGreenRelease(t *testing.T) {
	t.Parallel()
	aborted := func() *given {
		g := besideStable(2, 5, 5).resting(50)
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	backwards := func(g *given) { g.Workload.ReplicaSetsFrozen = true }
	const again = " Release another version, roll the workload back, or try again: sluice retry demo -n shop"
	says := func(traffic string, actions ...string) outcome {
		return outcome{State: rollout.StateAborted, Step: 2, Actions: actions, Message: "Stopped at the release was aborted. " + traffic + again}
	}
	does := func(actions ...string) outcome { return says(rollout.TrafficStable, actions...) }
	runPlanCases(t, map[string]planCase{
		"traffic goes at once":                          {aborted().routedTo(2, 5), does("restore VirtualService demo")},
		"the new pods are kept for a while":             {aborted(), does()},
		"then they go":                                  {aborted().With(backwards).After(30 * time.Second), does("scale h2 of Deployment demo to 0")},
		"at once where the stable Service has them too": {aborted().With(backwards).With(func(g *given) { g.StableService.Hash = "" }), says(rollout.TrafficReturns, "scale h2 of Deployment demo to 0")},
		"but not before the stable pods are ready": {
			aborted().With(backwards).With(func(g *given) { g.StableService.Hash, g.Workload.Revisions[0].Ready = "", 7 }),
			outcome{State: rollout.StateAborted, Step: 2, Message: "waiting for the pods of the stable version: 7 of 10 are ready"},
		},
		"autoscalers come back when they have gone": {
			aborted().With(backwards).With(func(g *given) { g.Workload.Revisions[1].Replicas = 0 }).scaler(true), does("restore HorizontalPodAutoscaler demo"),
		},
	})
}

// The style of an idle Rollout may change. Its values move to the other part of the status, and the planner reports no edit by a user.
func TestAStyleThatChangesShowsItselfElsewhere(t *testing.T) {
	t.Parallel()
	g := aRollout()
	before := g.Status.CanaryStatus.DeepCopy()
	g.Spec.Style = rollout.StyleBlueGreen
	g.replan()
	if o := g.outcome(); len(o.Notes) > 0 {
		t.Errorf("somebody is blamed: %s", strings.Join(o.Notes, "; "))
	}
	after := g.Planned().Status
	if after.CanaryStatus != nil || after.BlueGreenStatus == nil {
		t.Fatalf("it shows %v and %v", after.CanaryStatus, after.BlueGreenStatus)
	}
	after.BlueGreenStatus.RolloutHash = before.RolloutHash
	want := &api.BlueGreenStatus{CommonStatus: before.CommonStatus, UpdatedRevision: before.CanaryRevision}
	if diff := cmp.Diff(want, after.BlueGreenStatus); diff != "" {
		t.Errorf("it shows (-want +got):\n%s", diff)
	}
	g.Spec.Style = rollout.StyleCanary
	if back := g.replan().Planned().Status; back.BlueGreenStatus != nil || back.CanaryStatus.CanaryRevision != before.CanaryRevision {
		t.Errorf("back again it shows %v and %v", back.CanaryStatus, back.BlueGreenStatus)
	}
}

// For all numbers, a surge is the number that the step asks for.
func TestSurge(t *testing.T) {
	t.Parallel()
	for replicas := int32(1); replicas <= 300; replicas += 1 + replicas/20 {
		for pods := int32(1); pods <= replicas; pods++ {
			for _, step := range []rollout.Amount{{Value: 1}, {Value: 33, Percent: true}, {Value: 100, Percent: true}} {
				p := &planner{seen: rollout.Seen{Spec: rollout.Spec{Steps: []rollout.Step{{Replicas: step}}}, Workload: &rollout.Workload{DesiredReplicas: replicas}}, m: &api.SluiceStatus{Step: 1}}
				b := p.surgeBudget(pods)
				if got := b.Surge + (b.SurgePercent*replicas+99)/100; got != pods {
					t.Fatalf("%s of %d replicas are %d pods more, not %d", b, replicas, got, pods)
				}
				if replicas <= 100 && b.SurgePercent == 0 {
					t.Fatalf("%d of %d replicas are no percentage: %s", pods, replicas, b)
				}
			}
		}
	}
}

// The controller of a workload that is scaled to 0 still runs pods for a moment. If a user scales it up then, it gets no more new pods than the step has.
func TestSurgeOfAWorkloadScaledToZeroIsThatOfItsStep(t *testing.T) {
	t.Parallel()
	for want, step := range map[int32]rollout.Amount{1: {Value: 4}, 33: {Value: 33, Percent: true}, 100: {Value: 100, Percent: true}} {
		g := besideStable(2, 10, 10).surging(100).With(func(g *given) {
			g.Workload.DesiredReplicas, g.Workload.Observed, g.Spec.Steps[1].Replicas = 0, false, step
		})
		pause := rollout.PauseWorkload{Workload: g.Spec.Workload, Budget: rollout.Budget{SurgePercent: want}}
		if diff := cmp.Diff([]rollout.Action{pause}, Plan(g.Seen, g.now).Actions); diff != "" {
			t.Errorf("a step of %s (-want +got):\n%s", step, diff)
		}
	}
}

// If the executor released the Deployment as it is, the Service would spread its traffic over both versions.
func TestADeletionThatWouldLeaveBothVersionsInOneServiceWaits(t *testing.T) {
	t.Parallel()
	kept := func() *given {
		return besideStable(2, 5, 5).resting(50).routedTo(2, 5).In(rollout.StatePaused).Deleted().keepPaused()
	}
	for name, c := range map[string]struct {
		given *given
		held  bool
	}{
		"both versions are whole":      {kept(), true},
		"one was taken back":           {kept().RolledBack(), false},
		"without the annotation":       {kept().With(func(g *given) { g.Spec.KeepPaused = false }), false},
		"there is no workload to keep": {kept().With(func(g *given) { g.Workload = nil }), false},
	} {
		got := c.given.outcome()
		if held := got.Stalled == rollout.ReasonUnsupported && len(got.Actions) == 0; held != c.held {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
