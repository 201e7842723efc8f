package kube

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// idleCache remember workloads at rest as they were seen, so that a further look at one that has not changed since reads nothing of
// what hangs on it.
type idleCache struct {
	mu sync.Mutex
	at map[types.UID]idleWorkload
}

type idleWorkload struct {
	version     string // resourceVersion
	rolloutName string // name of the Rollout
	seen        rollout.Workload
}

// maxIdleWorkloads is from how many of them on all are forgotten, which costs two reads each.
const maxIdleWorkloads = 1 << 15

// getWorkload is nil when it is not known how the workload looks.
func (r *idleCache) getWorkload(w metav1.Object, by string) *rollout.Workload {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.at[w.GetUID()]
	if !ok || known.version != w.GetResourceVersion() || known.rolloutName != by {
		return nil
	}
	return &known.seen
}

func (r *idleCache) putWorkload(w metav1.Object, by string, seen rollout.Workload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= maxIdleWorkloads {
		r.at = map[types.UID]idleWorkload{}
	}
	r.at[w.GetUID()] = idleWorkload{w.GetResourceVersion(), by, seen}
}
