package executor

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/queue"
)

// again has a Rollout looked at once more when a run of this process may have come too soon. A hint travels by another way than the
// watches of this process: it can be here before the change that it is about, and the run that it brings sees nothing new. Or it is
// somewhere else, where it waits because the lease was left to this process. When the change has arrived, and a plan now would do
// something, the Rollout has another run here, and is hinted anew in case that this process dies before.
type again struct {
	*Executor
	hinter *queue.Hinter
	keys   chan queue.Key
	looks  workqueue.TypedDelayingInterface[look]
}

// look is a Rollout to be checked. found: it was there when this process began. last: it was checked a moment ago, when no more than
// progress was to be shown, or nothing could be told.
type look struct {
	types.NamespacedName
	found, last bool
}

// lookDelay is how long the run of a hint has to show progress before this process has a run of its own for it, and a watch that was asked
// for to begin.
const lookDelay = time.Second

// checkers is how many Rollouts are checked at once. A check asks nobody.
const checkers = 2

func newAgain(e *Executor) *again { return &again{Executor: e, keys: make(chan queue.Key)} }

// start watches until stop is called, which is after the last run.
func (a *again) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.looks = workqueue.NewTypedDelayingQueue[look]()
	a.hinter = queue.NewHinter(a.Queue.Hint, a.Logger)
	var running sync.WaitGroup
	running.Go(func() { a.Kube.Keep(ctx, func(name types.NamespacedName) { a.looks.Add(look{NamespacedName: name}) }) })
	running.Go(func() { a.hinter.Run(ctx) })
	for range checkers {
		running.Go(func() { a.check(ctx) })
	}
	a.Kube.Synced(ctx)
	running.Go(func() {
		for _, r := range a.Kube.Rollouts(ctx) {
			a.looks.Add(look{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, found: true})
		}
	})
	return func() {
		cancel()
		a.looks.ShutDown()
		running.Wait()
	}
}

func (a *again) check(ctx context.Context) {
	for {
		next, shutdown := a.looks.Get()
		if shutdown {
			return
		}
		if next.found {
			a.catchUp(next)
		} else if a.Kube.Moved(next.NamespacedName) && !a.Kube.Overtaken(next.NamespacedName) {
			a.follow(ctx, next)
		}
		a.looks.Done(next)
	}
}

// follow has a run here of what a run here may have come too soon for.
func (a *again) follow(ctx context.Context, next look) {
	snap, run, progress := a.wanted(next.NamespacedName)
	switch {
	case run || progress && next.last:
		key := a.key(next)
		a.hinter.Hint(key)
		select {
		case a.keys <- key:
		case <-ctx.Done():
		}
	case progress:
		a.looks.AddAfter(look{NamespacedName: next.NamespacedName, last: true}, lookDelay)
	default:
		a.Kube.Know(snap)
	}
}

// catchUp hints what another process has left undone. It took a hint that had come too soon for it, and died before its watches showed what
// the hint was about: nobody else knew. What cannot be told from memory, as long as this process has not yet had a run that needed the same
// kinds, is hinted unless it is plainly at rest: most are, and there may be many. A release that ended lately is hinted too, for its record
// is written after its end, when nobody waits for that.
func (a *again) catchUp(next look) {
	snap, run, progress := a.wanted(next.NamespacedName)
	ended, idle := a.Kube.IdleSince(next.NamespacedName)
	lately := idle && a.Clock().Sub(ended) < endSeen
	switch {
	case snap == nil && !next.last:
		a.looks.AddAfter(look{NamespacedName: next.NamespacedName, found: true, last: true}, lookDelay)
	case snap == nil && !lately && a.Kube.AtRest(next.NamespacedName):
	case run || progress || lately:
		a.hinter.Hint(a.key(next))
	}
}

func (a *again) key(of look) queue.Key {
	return queue.Key{Cluster: a.ClusterName, Namespace: of.Namespace, Name: of.Name}
}

// wanted reports whether a run would do something now, or show no more than how far something has come. Whatever cannot be told is worth
// a run, and is no snapshot.
func (a *again) wanted(name types.NamespacedName) (snap *kube.Snapshot, run, progress bool) {
	snap, ok := a.Kube.Peek(name)
	if !ok {
		return nil, true, false
	}
	decision := planner.Plan(snap.Seen, a.Clock())
	if len(snap.Scripts) > 0 {
		decision.Status.Sluice.Scripts = snap.Scripts
	}
	if len(decision.Actions) > 0 || decision.Status.Sluice.WakeAt != nil {
		return snap, true, false // the run that came too soon may have set the timer wrong
	}
	if !planner.OnlyProgress(snap.Seen.Status, decision.Status) {
		return snap, true, false
	}
	return snap, false, !decision.WakeAt.IsZero() || !equality.Semantic.DeepEqual(decision.Status, snap.Seen.Status)
}
