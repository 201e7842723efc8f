package main

import "slices"

// mutant is one mistake and the tests that must detect it: the arguments of go test.
type mutant struct {
	name   string
	edits  []edit
	caught []string
}

// edit replaces a text that occurs once in a file.
type edit struct{ file, old, new string }

// unit returns tests of a package that need no control plane.
func unit(pkg, tests string) []string { return []string{"-short", "-run", tests, "./pkg/" + pkg} }

// world returns tests of a package that run on a real control plane.
func world(pkg, tests string) []string { return []string{"-run", tests, "./pkg/" + pkg} }

func mutants() []mutant {
	return slices.Concat(forgetful(), hasty(), careless(), credulous(), deaf(), sloppy(), stubborn(), astray(), innumerate(), reckless(), disobedient())
}

// forgetful mutants omit the safeguards that separate writes.
func forgetful() []mutant {
	return []mutant{
		{"a patch of a Deployment without its precondition", []edit{{
			"pkg/workload/patch.go", `"resourceVersion": o.GetResourceVersion()}`, `}`,
		}}, unit("workload", "TestPatchesLeadToTheMarksTheyAreNamedFor")},
		{"a deletion without its precondition", []edit{{
			"pkg/kube/apply.go", `Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, `, `Preconditions: &metav1.Preconditions{UID: &uid}, `,
		}, {
			"pkg/kube/apply.go", `uid, version := object.GetUID(), object.GetResourceVersion()`, `uid := object.GetUID()`,
		}}, world("kube", "TestNoWriteLandsOnAnObjectThatHasChanged")},
		{"a status that lost a race is written again", []edit{{
			"pkg/kube/rolloutobject.go", "\tif err != nil {\n\t\treturn apiclient.RolloutError(\"commit the status of\", next, err)\n",
			`	if apiclient.IsConflict(err) {
		fresh := &api.Rollout{}
		if err = c.rollouts.Get().Namespace(next.Namespace).Resource("rollouts").Name(next.Name).Do(ctx).Into(fresh); err == nil {
			next.ResourceVersion, updated = fresh.ResourceVersion, &api.Rollout{}
			err = c.rollouts.Put().Namespace(next.Namespace).Resource("rollouts").Name(next.Name).SubResource("status").Body(next).Do(ctx).Into(updated)
		}
	}
	if err != nil {
		return apiclient.RolloutError("commit the status of", next, err)
`,
		}}, world("kube", "TestNoWriteLandsOnAnObjectThatHasChanged")},
	}
}

// hasty mutants do things in the wrong order.
func hasty() []mutant {
	return []mutant{
		{"acknowledged before the run", []edit{{
			"pkg/queue/run.go", "\t\tc.Metrics.waits.Observe(start.Sub(d.at).Seconds())\n", "\t\tc.settleDelivery(d, jetstream.Msg.Ack)\n\t\td = nil\n",
		}}, unit("queue", "TestARunTakesTheLease")},
		{"raised before the intent is committed", []edit{{
			"pkg/planner/plan.go", "a.RaisesExposure() && !p.intentCommitted(a)", "a.RaisesExposure() && !p.intentCommitted(a) && false",
		}, {
			"pkg/planner/run.go", "d.CommitFirst || a.RaisesExposure()", "d.CommitFirst || false && a.RaisesExposure()",
		}}, unit("planner", "TestWhatIsCarriedAlongIsCommittedBeforeARaise")},
		{"the canary Service goes before its routes", []edit{{
			"pkg/planner/finalise.go", "\t\tapi.FinalisingRestoreStableService, api.FinalisingRouteTrafficToStable, api.FinalisingRemoveCanaryService,\n\t\tapi.FinalisingResumeWorkload,",
			"\t\tapi.FinalisingRemoveCanaryService, api.FinalisingRestoreStableService, api.FinalisingRouteTrafficToStable,\n\t\tapi.FinalisingResumeWorkload,",
		}}, unit("planner", "TestEveryWayOutCleansUpInItsOrder")},
		{"routed before the pods are ready", []edit{{
			"pkg/planner/routes.go", "if backend.CanaryEndpoints+allowed < want || want > 0 && backend.CanaryEndpoints == 0 {", "if backend.CanaryEndpoints+allowed < 0 {",
		}, {
			"pkg/planner/step.go", "c.Available+allowed < want || want > 0 && c.Available == 0 {", "c.Available+allowed < 0 {",
		}}, unit("planner", "TestPlanWalksThroughAStep")},
		{"removed before the grace period is over", []edit{{
			"pkg/planner/routes.go", "if p.m.GraceUntil == nil ||", "if true || p.m.GraceUntil == nil ||",
		}}, unit("planner", "TestTheLongestGraceIsSpent")},
		{"the canary goes while no pod of the workload is ready", []edit{{
			"pkg/planner/finalise.go", "if p.workloadServes() && p.graceOver() {", "if p.graceOver() {",
		}}, unit("planner", "TestNoEndingTakesWhatServes")},
		{"an executor goes on with a step while the stable Service reaches no pod", []edit{{
			"pkg/planner/reach.go", "return !p.stepRoutesTraffic() || p.eachSeparate(p.stableReached)", "return true",
		}}, unit("planner", "TestEveryReachableState")},
		{"an executor narrows a Service that selects pods of other workloads", []edit{{
			"pkg/planner/reach.go", "if p.seen.Spec.AllowDropped || ", "if true || p.seen.Spec.AllowDropped || ",
		}}, unit("planner", "TestPodsOfOthersKeepTheirRequests")},
		{"a rollback in place takes all new pods at once", []edit{{
			"pkg/planner/finalise.go", "return !w.TakenOver && !w.MayTakeOthers() || p.podsRolledBack()", "return !w.TakenOver || w.MayTakeOthers() || p.podsRolledBack()",
		}, {
			"pkg/planner/finalise.go", "return !w.MayTakeOthers() || p.podsRolledBackInPlace()", "return true",
		}}, unit("planner", "TestEveryReachableState")},
		{"pods of the canary before the stable Service is pinned", []edit{{
			"pkg/planner/routes.go", "case backend.PinnedHash() == p.m.StableRevision:", "case p.currentState() == rollout.StateBeforeUpgrade || p.seen.Canary == nil || backend.PinnedHash() == p.m.StableRevision:",
		}}, unit("planner", "TestPlanWalksThroughAStep")},
	}
}

// careless mutants skip work that is still due.
func careless() []mutant {
	return []mutant{
		{"the outbox of an earlier run is not published", []edit{{
			"pkg/executor/executor.go", "if err := e.publishTransitions(ctx, snap.Seen); err != nil {\n\t\treturn queue.Result{", "if err := error(nil); err != nil {\n\t\treturn queue.Result{",
		}}, world("executor", "TestAHoldThatWasCommittedIsPublishedByTheNext")},
		{"the timer is not set", []edit{{
			"pkg/queue/run.go", "if err := c.queue.SetTimer(context.WithoutCancel(ctx), key, at); err != nil {", "if err := error(nil); err != nil {",
		}}, unit("queue", "TestARunTakesTheLease")},
		{"a failed run is acknowledged", []edit{{
			"pkg/queue/run.go", "if r.Err != nil {", "if false {",
		}}, unit("queue", "TestAnErrorIsTriedAgainWithGrowingWaits")},
		{"the lease is ignored", []edit{{
			"pkg/queue/lease.go", "return nil, errHeld", "return &lease{kv: l.kv, key: l.key, holder: l.holder, stop: func() {}}, nil",
		}}, unit("queue", "TestALeaseOfItsHolderIsTakenAtOnce")},
	}
}
