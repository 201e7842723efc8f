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

// requeuer has a Rollout looked at once more when a run of this process may have come too soon. A hint travels by another way than the
// watches of this process: it can be here before the change that it is about, and the run that it brings sees nothing new. Or it is
// somewhere else, where it waits because the lease was left to this process. When the change has arrived, and a plan now would do
// something, the Rollout has another run here, and is hinted anew in case that this process dies before.
type requeuer struct {
	*Executor
	hinter *queue.Hinter
	keys   chan queue.Key
	items  workqueue.TypedDelayingInterface[requeueItem]
}

// requeueItem is a Rollout to be checked. found: it was there when this process began. last: it was checked a moment ago, when no more than
// progress was to be shown, or nothing could be told.
type requeueItem struct {
	types.NamespacedName
	startup, rechecked bool
}

// recheckDelay is how long the run of a hint has to show progress before this process has a run of its own for it, and a watch that was asked
// for to begin.
const recheckDelay = time.Second

// checkers is how many Rollouts are checked at once. A check asks nobody.
const checkers = 2

func newRequeuer(e *Executor) *requeuer { return &requeuer{Executor: e, keys: make(chan queue.Key)} }

// startChecks watches until stop is called, which is after the last run.
func (a *requeuer) startChecks(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.items = workqueue.NewTypedDelayingQueue[requeueItem]()
	a.hinter = queue.NewHinter(a.Queue.PublishHint, a.Logger)
	var running sync.WaitGroup
	running.Go(func() {
		a.Kube.Start(ctx, func(name types.NamespacedName) { a.items.Add(requeueItem{NamespacedName: name}) })
	})
	running.Go(func() { a.hinter.Run(ctx) })
	for range checkers {
		running.Go(func() { a.checkItems(ctx) })
	}
	a.Kube.WaitForCacheSync(ctx)
	running.Go(func() {
		for _, r := range a.Kube.ListRollouts(ctx) {
			a.items.Add(requeueItem{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, startup: true})
		}
	})
	return func() {
		cancel()
		a.items.ShutDown()
		running.Wait()
	}
}

func (a *requeuer) checkItems(ctx context.Context) {
	for {
		next, shutdown := a.items.Get()
		if shutdown {
			return
		}
		if next.startup {
			a.catchUp(next)
		} else if a.Kube.HasChanged(next.NamespacedName) && !a.Kube.IsSuperseded(next.NamespacedName) {
			a.requeueIfDue(ctx, next)
		}
		a.items.Done(next)
	}
}

// requeueIfDue has a run here of what a run here may have come too soon for.
func (a *requeuer) requeueIfDue(ctx context.Context, next requeueItem) {
	snap, run, progress := a.previewRun(next.NamespacedName)
	switch {
	case run || progress && next.rechecked:
		key := a.queueKey(next)
		a.hinter.Hint(key)
		select {
		case a.keys <- key:
		case <-ctx.Done():
		}
	case progress:
		a.items.AddAfter(requeueItem{NamespacedName: next.NamespacedName, rechecked: true}, recheckDelay)
	default:
		a.Kube.TrackSnapshot(snap)
	}
}

// catchUp hints what another process has left undone. It took a hint that had come too soon for it, and died before its watches showed what
// the hint was about: nobody else knew. What cannot be told from memory, as long as this process has not yet had a run that needed the same
// kinds, is hinted unless it is plainly at rest: most are, and there may be many. A release that ended lately is hinted too, for its record
// is written after its end, when nobody waits for that.
func (a *requeuer) catchUp(next requeueItem) {
	snap, run, progress := a.previewRun(next.NamespacedName)
	ended, idle := a.Kube.IdleSince(next.NamespacedName)
	lately := idle && a.Clock().Sub(ended) < recordCheckWindow
	switch {
	case snap == nil && !next.rechecked:
		a.items.AddAfter(requeueItem{NamespacedName: next.NamespacedName, startup: true, rechecked: true}, recheckDelay)
	case snap == nil && !lately && a.Kube.IsIdle(next.NamespacedName):
	case run || progress || lately:
		a.hinter.Hint(a.queueKey(next))
	}
}

func (a *requeuer) queueKey(of requeueItem) queue.Key {
	return queue.Key{Cluster: a.ClusterName, Namespace: of.Namespace, Name: of.Name}
}

// previewRun reports whether a run would do something now, or show no more than how far something has come. Whatever cannot be told is worth
// a run, and is no snapshot.
func (a *requeuer) previewRun(name types.NamespacedName) (snap *kube.Snapshot, run, progress bool) {
	snap, ok := a.Kube.ObserveCached(name)
	if !ok {
		return nil, true, false
	}
	decision := planSnapshot(new(planner.Run), snap, a.Clock())
	if len(decision.Actions) > 0 || decision.Status.Sluice.WakeAt != nil {
		return snap, true, false // the run that came too soon may have set the timer wrong
	}
	if !planner.OnlyProgress(snap.Seen.Status, decision.Status) {
		return snap, true, false
	}
	return snap, false, !decision.WakeAt.IsZero() || !equality.Semantic.DeepEqual(decision.Status, snap.Seen.Status)
}
