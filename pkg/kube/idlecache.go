package kube

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// restedWorkloads remember workloads at rest as they were seen, so that a further look at one that has not changed since reads nothing of
// what hangs on it.
type restedWorkloads struct {
	mu sync.Mutex
	at map[types.UID]restedWorkload
}

type restedWorkload struct {
	version string // resourceVersion
	by      string // name of the Rollout
	seen    rollout.Workload
}

// manyRested is from how many of them on all are forgotten, which costs two reads each.
const manyRested = 1 << 15

// get is nil when it is not known how the workload looks.
func (r *restedWorkloads) get(w metav1.Object, by string) *rollout.Workload {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.at[w.GetUID()]
	if !ok || known.version != w.GetResourceVersion() || known.by != by {
		return nil
	}
	return &known.seen
}

func (r *restedWorkloads) put(w metav1.Object, by string, seen rollout.Workload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= manyRested {
		r.at = map[types.UID]restedWorkload{}
	}
	r.at[w.GetUID()] = restedWorkload{w.GetResourceVersion(), by, seen}
}
