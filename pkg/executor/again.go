package executor

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// again has a Rollout looked at once more when a run of this process may have come too soon. A hint travels by another way than the
// watches of this process: it can be here before the change that it is about, and the run that it brings sees nothing new. Or it is
// somewhere else, where it waits because the lease was left to this process. When the change has arrived, and a plan now would do
// something, the Rollout has another run here, and is hinted anew in case that this process dies before.
type again struct {
	*Executor
	hinter *queue.Hinter
	keys   chan queue.Key
	names  workqueue.TypedInterface[types.NamespacedName]
}

// checkers is how many Rollouts are checked at once. A check asks nobody.
const checkers = 2

func newAgain(e *Executor) *again { return &again{Executor: e, keys: make(chan queue.Key)} }

// start watches until stop is called, which is after the last run.
func (a *again) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.names = workqueue.NewTyped[types.NamespacedName]()
	a.hinter = queue.NewHinter(a.Queue.Hint, a.Logger)
	var running sync.WaitGroup
	running.Go(func() { a.Kube.Keep(ctx, a.names.Add) })
	running.Go(func() { a.hinter.Run(ctx) })
	for range checkers {
		running.Go(func() { a.check(ctx) })
	}
	a.Kube.Synced(ctx)
	return func() {
		cancel()
		a.names.ShutDown()
		running.Wait()
	}
}

func (a *again) check(ctx context.Context) {
	for {
		name, shutdown := a.names.Get()
		if shutdown {
			return
		}
		if a.Kube.Moved(name) && !a.Kube.Overtaken(name) && a.wanted(name) {
			key := queue.Key{Cluster: a.ClusterName, Namespace: name.Namespace, Name: name.Name}
			a.hinter.Hint(key)
			select {
			case a.keys <- key:
			case <-ctx.Done():
			}
		}
		a.names.Done(name)
	}
}

// wanted reports whether a run would do something now. Whatever cannot be told is worth a run.
func (a *again) wanted(name types.NamespacedName) bool {
	snap, ok := a.Kube.Peek(name)
	if !ok {
		return true
	}
	now := a.Clock()
	decision := rollout.Plan(snap.Seen, now)
	if len(snap.Scripts) > 0 {
		decision.Status.Sluice.Scripts = snap.Scripts
	}
	if len(decision.Actions) > 0 || decision.Status.Sluice.WakeAt != nil {
		return true // the run that came too soon may have set the timer wrong
	}
	if !equality.Semantic.DeepEqual(decision.Status, snap.Seen.Status) && !rollout.OnlyProgress(snap.Seen.Status, decision.Status) {
		return true
	}
	a.Kube.Know(snap)
	return false
}
