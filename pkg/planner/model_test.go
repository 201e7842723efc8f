package planner

import (
	"cmp"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func weight(n rollout.Percent) *rollout.Percent { return &n }

func demoSpec(steps ...rollout.Step) rollout.Spec {
	spec := rollout.Spec{
		Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "demo"}, Style: rollout.StyleCanary, Steps: steps,
		Routing: []rollout.Routing{{Service: "demo", CanaryService: "demo-canary", Grace: 3 * time.Second, Objects: []rollout.Ref{
			{APIVersion: "networking.istio.io/v1", Kind: "DestinationRule", Name: "demo"},
			{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Name: "demo"},
		}}},
	}
	spec.Hash = rollout.PlanHash(spec)
	return spec
}

// byTwoServices routes each of two Services on a gateway object of its own.
func byTwoServices() []rollout.Routing {
	return []rollout.Routing{
		{Service: "demo", CanaryService: "demo-canary", Grace: 3 * time.Second, Objects: []rollout.Ref{{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Name: "demo"}}},
		{Service: "grpc", CanaryService: "grpc-canary", Objects: []rollout.Ref{{APIVersion: "example.com/v1", Kind: "Route", Name: "grpc"}}},
	}
}

// models returns the small worlds that the test explores completely.
func models() []*model {
	first := rollout.Step{Replicas: rollout.Amount{Value: 1}, Weight: weight(20), Manual: true}
	second := rollout.Step{Replicas: rollout.Amount{Value: 2}, Weight: weight(50), Manual: true}
	full := second
	full.AllowFull = true
	timed := rollout.Step{Replicas: rollout.Amount{Value: 2}, Weight: weight(50), Pause: 5 * time.Second}
	plain := rollout.Step{Replicas: rollout.Amount{Value: 1}, Manual: true}
	all := rollout.Step{Replicas: rollout.Amount{Value: 100, Percent: true}, Weight: weight(100), Manual: true}
	shared, bare := demoSpec(first, all), demoSpec(plain, timed)
	shared.Routing[0].CanaryService = "demo"
	bare.Routing = nil
	bare.Steps[1].Weight = nil
	auto := &rollout.Analysis{OnFailure: api.FailureAbort, AutoPromote: true}
	promoted, rolled, watched := demoSpec(first, all), demoSpec(first, timed), demoSpec(first, plain)
	promoted.Steps[0].Analysis, promoted.Steps[1].Analysis = auto, auto
	rolled.Steps[0].Analysis = &rollout.Analysis{OnFailure: api.FailureRollback}
	rolled.Steps[1].Analysis = &rollout.Analysis{OnFailure: api.FailurePause}
	watched.ReleaseAnalysis = &rollout.Analysis{OnFailure: api.FailureAbort, StartingStep: 1}
	inPlace := func(steps ...rollout.Step) rollout.Spec {
		spec := demoSpec(steps...)
		spec.Style = rollout.StylePartition
		return spec
	}
	tolerant := inPlace(full, all)
	tolerant.FailureThreshold = rollout.Amount{Value: 50, Percent: true}
	bareInPlace := inPlace(plain, timed)
	bareInPlace.Routing = nil
	bareInPlace.Steps[1].Weight = nil
	watchedInPlace, rolledInPlace := inPlace(first, all), inPlace(plain, timed)
	watchedInPlace.ReleaseAnalysis = watched.ReleaseAnalysis
	rolledInPlace.Routing, rolledInPlace.Steps = nil, slices.Clone(bareInPlace.Steps)
	rolledInPlace.Steps[0].Analysis = &rollout.Analysis{OnFailure: api.FailureRollback}
	rolledInPlace.Steps[1].Analysis = auto
	expired, expiredInPlace := demoSpec(plain, first), inPlace(first, all)
	expired.ProgressDeadline, expired.OnDeadline = 5*time.Second, api.DeadlineAbort
	expiredInPlace.ProgressDeadline = 5 * time.Second
	beside := func(steps ...rollout.Step) rollout.Spec {
		spec := demoSpec(steps...)
		spec.Style, spec.AbortDelay = rollout.StyleBlueGreen, 5*time.Second
		return spec
	}
	bareBeside, sharedBeside, watchedBeside := beside(plain, timed), beside(first, all), beside(first, all)
	bareBeside.Routing = nil
	bareBeside.Steps[1].Weight = nil
	sharedBeside.Routing[0].CanaryService = "demo"
	watchedBeside.ReleaseAnalysis = watched.ReleaseAnalysis
	expiredBeside, keptPaused := beside(slices.Clone(bareBeside.Steps)...), inPlace(first, full)
	expiredBeside.Routing, expiredBeside.ProgressDeadline, expiredBeside.OnDeadline = nil, 5*time.Second, api.DeadlineAbort
	keptPaused.KeepPaused = true
	lateRoom := expiredBeside
	lateRoom.OnDeadline, lateRoom.Steps = api.DeadlinePause, []rollout.Step{plain, {Replicas: rollout.Amount{Value: 2}, Manual: true}}
	backInBatches, watchedBack := bareInPlace, bareInPlace
	for _, spec := range []*rollout.Spec{&backInBatches, &watchedBack} {
		spec.RollbackInBatch, spec.Workload.Kind = true, "StatefulSet"
	}
	halfBack := backInBatches
	halfBack.Steps = []rollout.Step{{Replicas: rollout.Amount{Value: 50, Percent: true}, Manual: true}, {Replicas: rollout.Amount{Value: 2}, Manual: true}}
	watchedBack.ReleaseAnalysis = watched.ReleaseAnalysis
	byItself := rollout.Step{Replicas: rollout.Amount{Value: 100, Percent: true}, Weight: weight(100), Pause: time.Second}
	returning, returningBeside := inPlace(byItself), beside(byItself)
	returning.RollbackWindow, returningBeside.RollbackWindow = 1, 1
	twoServices, mixedInPlace, twoBeside := demoSpec(first, all), inPlace(first, all), beside(first, all)
	for _, spec := range []*rollout.Spec{&twoServices, &mixedInPlace, &twoBeside} {
		spec.Routing = byTwoServices()
	}
	mixedInPlace.Routing[1].CanaryService = mixedInPlace.Routing[1].Service
	shrinking := func(steps ...rollout.Step) rollout.Spec {
		spec := demoSpec(steps...)
		spec.ConstantCapacity, spec.AbortDelay = true, 5*time.Second
		return spec
	}
	third := rollout.Step{Replicas: rollout.Amount{Value: 1}, Weight: weight(34), Manual: true}
	bareShrinking := shrinking(plain, rollout.Step{Replicas: rollout.Amount{Value: 2}, Pause: 5 * time.Second})
	bareShrinking.Routing = nil
	sharedShrinking := shrinking(third, all)
	sharedShrinking.Routing[0].CanaryService = "demo"
	threeSteps := []rollout.Step{first, second, all}
	return []*model{
		{name: "three steps", spec: demoSpec(threeSteps...), routes: 1, acts: 1, most: 3},
		{name: "three steps, pods replaced", spec: inPlace(threeSteps...), routes: 1, acts: 1, most: 3},
		{name: "three steps, pods replaced with a surge", spec: inPlace(threeSteps...), routes: 1, acts: 1, most: 3, surge: 1},
		{name: "three steps, a partition", spec: inPlace(threeSteps...), routes: 1, acts: 1, most: 3, lever: rollout.MechanismPartition},
		{name: "three steps, pods in their order", spec: inPlace(threeSteps...), routes: 1, acts: 1, most: 3, lever: rollout.MechanismPartition, orders: true},
		{name: "three steps, pods deleted", spec: inPlace(threeSteps...), routes: 1, acts: 1, most: 3, lever: rollout.MechanismOnDelete},
		{name: "three steps, pods beside", spec: beside(threeSteps...), routes: 1, acts: 1, most: 3},
		{name: "three steps, room", spec: beside(threeSteps...), routes: 1, acts: 1, most: 3, lever: rollout.MechanismPartition},
		{name: "three steps, stable pods that give way", spec: shrinking(threeSteps...), routes: 1, acts: 1, most: 3, exact: true},
		{name: "stable pods that give way in two approved steps", spec: shrinking(third, all), routes: 1, acts: 2, most: 3, exact: true},
		{name: "stable pods that give way without traffic routing", spec: bareShrinking, acts: 2, most: 3, exact: true},
		{name: "stable pods that give way, one of which may be missing", spec: shrinking(third, all), routes: 1, acts: 1, most: 3},
		{name: "stable pods that give way to a version that fails in the workload", spec: shrinking(all), routes: 1, acts: 2, most: 3, broken: 2},
		{name: "a workload that takes all its pods before it makes others", spec: demoSpec(first, all), routes: 1, acts: 2, anew: true},
		{name: "a workload whose pods may all be missing", spec: demoSpec(first, all), routes: 1, acts: 2, whole: true},
		{name: "a workload that takes all its pods, without traffic routing", spec: bare, acts: 2, anew: true},
		{name: "pods replaced that may all be missing", spec: inPlace(first, all), routes: 1, acts: 2, whole: true},
		{name: "pods replaced that may all be missing, without traffic routing", spec: bareInPlace, acts: 2, whole: true, surge: 1},
		{name: "pods beside those that may all be missing", spec: beside(first, all), routes: 1, acts: 2, whole: true},
		{name: "a partition of pods that may all be missing", spec: inPlace(first, all), routes: 1, acts: 2, whole: true, lever: rollout.MechanismPartition},
		{name: "pods deleted that may all be missing", spec: inPlace(first, all), routes: 1, acts: 2, whole: true, lever: rollout.MechanismOnDelete},
		{name: "room beside pods that may all be missing", spec: beside(first, all), routes: 1, acts: 2, whole: true, lever: rollout.MechanismPartition},
		{name: "pods replaced that fail", spec: bareInPlace, acts: 2, most: 3, surge: 1, loose: true, fails: true},
		{name: "deleted pods whose followers fail", spec: bareInPlace, acts: 2, most: 3, lever: rollout.MechanismOnDelete, fails: true},
		{name: "pods beside that fail", spec: bareBeside, acts: 2, fails: true},
		{name: "room whose pods fail", spec: bareBeside, acts: 2, lever: rollout.MechanismPartition, fails: true},
		{name: "pods replaced by a version whose last pods fail", spec: inPlace(first), routes: 1, acts: 2, broken: 2},
		{name: "pods beside of a version whose last pods fail", spec: beside(first), routes: 1, acts: 2, broken: 2},
		{name: "stable pods that give way behind a shared Service", spec: sharedShrinking, routes: 1, acts: 2, most: 3, exact: true},
		{name: "stable pods that give way before a step without traffic", spec: shrinking(third, plain), routes: 1, acts: 2, most: 3, exact: true},
		{name: "a route that names what is made for it", spec: demoSpec(first, all), routes: 1, acts: 2, names: true},
		{name: "pods replaced behind a route that names what is made for it", spec: inPlace(first, plain), routes: 1, acts: 2, names: true},
		{name: "pods beside behind a route that names what is made for it", spec: beside(first, all), routes: 1, acts: 2, names: true},
		{name: "two Services", spec: twoServices, routes: 2, acts: 2},
		{name: "pods replaced behind two Services, one of them shared", spec: mixedInPlace, routes: 2, acts: 2},
		{name: "pods beside behind two Services", spec: twoBeside, routes: 2, acts: 2},
		{name: "a partition in two approved steps", spec: inPlace(first, all), routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "a partition without traffic routing, taken back by metrics", spec: rolledInPlace, acts: 2, lever: rollout.MechanismPartition},
		{name: "a partition that goes back in batches", spec: backInBatches, acts: 2, lever: rollout.MechanismPartition},
		{name: "pods in their order that go back in batches", spec: backInBatches, acts: 3, lever: rollout.MechanismPartition, orders: true},
		{name: "three pods in their order that go back in batches", spec: halfBack, acts: 2, lever: rollout.MechanismPartition, orders: true, most: 3},
		{name: "pods in their order that go back in batches while metrics watch", spec: watchedBack, acts: 2, lever: rollout.MechanismPartition, orders: true},
		{name: "pods deleted in two approved steps", spec: inPlace(first, all), routes: 1, acts: 2, lever: rollout.MechanismOnDelete},
		{name: "pods deleted without traffic routing", spec: bareInPlace, acts: 2, lever: rollout.MechanismOnDelete},
		{name: "steps that are aborted when they are late", spec: expired, routes: 1, acts: 2},
		{name: "pods replaced in steps that are held when they are late", spec: expiredInPlace, routes: 1, acts: 2},
		{name: "pods beside in two approved steps", spec: beside(first, all), routes: 1, acts: 2},
		{name: "room in two approved steps", spec: beside(first, all), routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "room without traffic routing", spec: bareBeside, acts: 2, lever: rollout.MechanismPartition},
		{name: "room beside a shared Service", spec: sharedBeside, routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "room in a workload that is not found for a moment", spec: beside(first, all), routes: 1, acts: 2, lever: rollout.MechanismPartition, blinks: true},
		{name: "room while metrics watch", spec: watchedBeside, routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "room in steps that are held when they are late", spec: lateRoom, acts: 2, lever: rollout.MechanismPartition},
		{name: "room in steps that are aborted when they are late", spec: expiredBeside, acts: 1, lever: rollout.MechanismPartition},
		{name: "room in a workload that is scaled to 0 and back", spec: bareBeside, acts: 2, lever: rollout.MechanismPartition, scales: true},
		{name: "pods beside, without traffic in the second step", spec: beside(first, plain), routes: 1, acts: 2},
		{name: "pods beside without traffic routing, with a surge", spec: bareBeside, acts: 2, surge: 1},
		{name: "pods beside a shared Service", spec: sharedBeside, routes: 1, acts: 2},
		{name: "pods beside in steps that are aborted when they are late", spec: expiredBeside, acts: 2},
		{name: "pods replaced by a version that served lately", spec: returning, routes: 1, acts: 2},
		{name: "pods beside of a version that served lately", spec: returningBeside, routes: 1, acts: 2},
		{name: "a workload that is not found for a moment", spec: demoSpec(first, all), routes: 1, acts: 2, blinks: true},
		{name: "a stable Service that reaches no pod for a while", spec: demoSpec(first, all), routes: 1, acts: 1, strays: true},
		{name: "pods replaced behind a Service that reaches none for a while", spec: inPlace(first, all), routes: 1, acts: 1, strays: true},
		{name: "pods beside those that a Service does not reach for a while", spec: beside(first, all), routes: 1, acts: 1, strays: true},
		{name: "pods replaced in a workload that is not found for a moment", spec: inPlace(first, full), routes: 1, acts: 2, blinks: true},
		{name: "pods beside in a workload that is not found for a moment", spec: beside(first, all), routes: 1, acts: 2, blinks: true},
		{name: "a partition that outlives its Rollout", spec: keptPaused, routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "pods beside while metrics watch", spec: watchedBeside, routes: 1, acts: 2},
		{name: "pods replaced while metrics watch", spec: watchedInPlace, routes: 1, acts: 2},
		{name: "pods replaced and taken back by metrics, with a surge", spec: rolledInPlace, acts: 2, surge: 1},
		{name: "pods beside in a workload that is scaled to 0 and back", spec: beside(first, second), routes: 1, acts: 2, scales: true},
		{name: "pods replaced in a workload that is scaled to 0 and back", spec: inPlace(first, full), routes: 1, acts: 2, scales: true},
		{name: "pods replaced in two approved steps", spec: inPlace(first, all), routes: 1, acts: 2},
		{name: "pods replaced in a step that says less than it does", spec: inPlace(first, full), routes: 1, acts: 2, refuses: true},
		{name: "a partition in a step that says less than it does", spec: inPlace(first, full), routes: 1, acts: 2, refuses: true, lever: rollout.MechanismPartition},
		{name: "pods deleted in a step that says less than it does", spec: inPlace(first, full), routes: 1, acts: 2, refuses: true, lever: rollout.MechanismOnDelete},
		{name: "pods replaced in steps that tolerate unready ones", spec: tolerant, routes: 1, acts: 1},
		{name: "pods replaced without traffic routing, with a surge", spec: bareInPlace, acts: 2, surge: 1},
		{name: "steps that change", spec: demoSpec(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2},
		{name: "a number of steps that grows", spec: demoSpec(first, all), other: []rollout.Step{first, second, all}, routes: 1, acts: 2},
		{name: "a number of steps that shrinks", spec: demoSpec(first, second, all), other: []rollout.Step{second, all}, routes: 1, acts: 2},
		{name: "pods replaced in a number of steps that shrinks", spec: inPlace(first, second, all), other: []rollout.Step{second, all}, routes: 1, acts: 1, most: 3},
		{name: "pods beside in a number of steps that changes", spec: beside(first, all), other: []rollout.Step{second, second, all}, routes: 1, acts: 1},
		{name: "pods replaced in steps that change", spec: inPlace(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, most: 3},
		{name: "a partition in steps that change", spec: inPlace(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, most: 3, lever: rollout.MechanismPartition},
		{name: "pods in their order in steps that change", spec: inPlace(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, most: 3, lever: rollout.MechanismPartition, orders: true},
		{name: "pods deleted in steps that change", spec: inPlace(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, most: 3, lever: rollout.MechanismOnDelete},
		{name: "pods beside in steps that change", spec: beside(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2},
		{name: "room in steps that change", spec: beside(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, lever: rollout.MechanismPartition},
		{name: "stable pods that give way in steps that change", spec: shrinking(third, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, most: 3, exact: true},
		{name: "a fleet", spec: demoSpec(first, all), routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesKeep},
		{name: "a fleet that passes pauses", spec: bare, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, pods replaced", spec: inPlace(first, all), routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, a partition", spec: bareInPlace, acts: 2, lever: rollout.MechanismPartition, fleet: true, pauses: api.FleetLocalPausesKeep},
		{name: "a fleet, pods in their order", spec: bareInPlace, acts: 2, lever: rollout.MechanismPartition, orders: true, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, pods deleted", spec: bareInPlace, acts: 2, lever: rollout.MechanismOnDelete, fleet: true, pauses: api.FleetLocalPausesKeep},
		{name: "a fleet, pods beside", spec: beside(first, all), routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, room", spec: bareBeside, acts: 1, lever: rollout.MechanismPartition, fleet: true, pauses: api.FleetLocalPausesKeep},
		{name: "a fleet whose versions return at once", spec: returning, routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, steps that change", spec: demoSpec(first, all), other: []rollout.Step{second, all}, routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet, a workload that is scaled to 0 and back", spec: inPlace(first, full), routes: 1, acts: 2, scales: true, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "a fleet that sets images", spec: bare, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass, patches: true},
		{name: "a fleet that sets images, pods replaced", spec: inPlace(first, all), routes: 1, acts: 1, fleet: true, pauses: api.FleetLocalPausesPass, patches: true},
		{name: "a fleet that sets images, pods deleted", spec: bareInPlace, acts: 1, lever: rollout.MechanismOnDelete, fleet: true, pauses: api.FleetLocalPausesKeep, patches: true},
		{name: "a fleet, metrics that roll back", spec: rolled, routes: 1, acts: 2, fleet: true, pauses: api.FleetLocalPausesPass},
		{name: "two approved steps", spec: demoSpec(first, second), routes: 1, acts: 3},
		{name: "a step without traffic before one that ends by itself", spec: demoSpec(plain, timed), routes: 1, acts: 2},
		{name: "a step without traffic after one with it", spec: demoSpec(first, plain), routes: 1, acts: 2},
		{name: "two gateway objects and a last step with all replicas", spec: demoSpec(first, all), routes: 2, acts: 2},
		{name: "a shared Service", spec: shared, routes: 1, acts: 2},
		{name: "no traffic routing", spec: bare, acts: 2},
		{name: "steps that metrics promote", spec: promoted, routes: 1, acts: 2},
		{name: "metrics that roll back and metrics that ask", spec: rolled, routes: 1, acts: 2},
		{name: "a whole release that is watched", spec: watched, routes: 1, acts: 2},
	}
}

// The test explores each model with one act of users. That finds every mistake of dev/mutants in seconds; -rollout.acts=3 explores the models
// completely.
func TestEveryReachableState(t *testing.T) {
	all := models()
	var exploring errgroup.Group
	exploring.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range all {
		m.check, m.digest, m.acts = newChecks(), newDecisionDigest(), min(m.acts, mostActs, int8(*actsOfUsers))
		exploring.Go(func() error {
			begun := time.Now()
			e := explore(m)
			t.Logf("%s: %d states, %d of them asked, %d runs at most, in %s", m.name, len(e.parents), len(e.asked), e.runs, time.Since(begun).Round(time.Millisecond))
			return nil
		})
	}
	_ = exploring.Wait() // the functions return no error
	if err := writeDigests(all); err != nil {
		t.Fatal(err)
	}
	found := newChecks()
	for _, m := range all {
		for name, breach := range m.check.found {
			found.found[name] = cmp.Or(found.found[name], breach)
		}
	}
	found.report(t)
}
