package analyzer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/queue"
)

// requeuer runs a Rollout again when the watch shows a change of it, or of one of its templates, since its last run here. Hints and watch events travel on
// separate paths, so a hint can arrive before its change.
type requeuer struct {
	*Analyzer
	keys  chan queue.Key
	names workqueue.TypedInterface[types.NamespacedName]
}

func newRequeuer(a *Analyzer) *requeuer {
	return &requeuer{Analyzer: a, keys: make(chan queue.Key), names: workqueue.NewTyped[types.NamespacedName]()}
}

// requeueChanged sends the keys of changed Rollouts to the queue until names is shut down.
func (a *requeuer) requeueChanged(ctx context.Context) {
	for {
		name, shutdown := a.names.Get()
		if shutdown {
			return
		}
		if a.Kube.HasChanged(name) {
			select {
			case a.keys <- queue.Key{Cluster: a.ClusterName, Namespace: name.Namespace, Name: name.Name, Task: queue.TaskAnalysis}:
			case <-ctx.Done():
			}
		}
		a.names.Done(name)
	}
}
