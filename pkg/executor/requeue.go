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

// requeuer runs a Rollout again when a run of this process may have come too early. Hints and watch events travel on separate paths. A hint can arrive before
// its change, and then its run observes nothing new. The hint can also wait at another process because this process keeps the lease. When the change has
// arrived and a plan would act on it, the requeuer starts a run here. It also publishes a hint in case this process dies before the run.
type requeuer struct {
	*Executor
	hinter *queue.Hinter
	keys   chan queue.Key
	items  workqueue.TypedDelayingInterface[requeueItem]
}

// requeueItem is a Rollout to be checked. startup: the Rollout existed when this process started. rechecked: an earlier check found only progress, or could not
// decide.
type requeueItem struct {
	types.NamespacedName
	startup, rechecked bool
}

// recheckDelay is the time that the run of a hint has to show progress before this process starts its own run. A requested watch has the same time to begin.
const recheckDelay = time.Second

// checkers is the number of Rollouts checked in parallel. A check sends no request to the API server.
const checkers = 2

func newRequeuer(e *Executor) *requeuer { return &requeuer{Executor: e, keys: make(chan queue.Key)} }

// startChecks checks Rollouts until the caller calls stop, after the last run.
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

// requeueIfDue starts a run of a Rollout whose last run here may have come too early.
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

// catchUp publishes hints for unfinished work of other processes. A process may take a hint too early and die before its watches show the change. No other
// process knows about that change. If the cache cannot decide, because no run here has needed the same kinds yet, catchUp publishes a hint unless the Rollout
// is clearly idle. Most Rollouts are idle, and there may be many. It also publishes a hint for a release that ended recently, because the record is written
// after the end, when no run waits for it.
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

// previewRun reports whether a run would act now, or would only show progress. If the cache cannot decide, snap is nil and run is true.
func (a *requeuer) previewRun(name types.NamespacedName) (snap *kube.Snapshot, run, progress bool) {
	snap, ok := a.Kube.ObserveCached(name)
	if !ok {
		return nil, true, false
	}
	decision := planSnapshot(new(planner.Run), snap, a.Clock())
	if len(decision.Actions) > 0 || decision.Status.Sluice.WakeAt != nil {
		return snap, true, false // the early run may have set a wrong timer
	}
	if !planner.OnlyProgress(snap.Seen.Status, decision.Status) {
		return snap, true, false
	}
	return snap, false, !decision.WakeAt.IsZero() || !equality.Semantic.DeepEqual(decision.Status, snap.Seen.Status)
}
