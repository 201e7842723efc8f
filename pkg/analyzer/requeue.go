package analyzer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/queue"
)

// requeuer has a Rollout looked at once more when the watch of this process shows it, or a template of it, otherwise than its last run here
// saw it: a hint travels by another way, and can be here before the change that it is about.
type requeuer struct {
	*Analyzer
	keys  chan queue.Key
	names workqueue.TypedInterface[types.NamespacedName]
}

func newRequeuer(a *Analyzer) *requeuer {
	return &requeuer{Analyzer: a, keys: make(chan queue.Key), names: workqueue.NewTyped[types.NamespacedName]()}
}

// requeueChanged hands on names until they are shut down.
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
