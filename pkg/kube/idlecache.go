package kube

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// idleCache remembers workloads without a release under way as they were observed. A further observation of an
// unchanged workload then reads none of its ReplicaSets or pods.
type idleCache struct {
	mu sync.Mutex
	at map[types.UID]idleWorkload
}

type idleWorkload struct {
	version     string // resourceVersion
	rolloutName string // name of the Rollout
	seen        rollout.Workload
}

// maxIdleWorkloads is the number of workloads at which the cache forgets them all. That costs two reads for each.
const maxIdleWorkloads = 1 << 15

// getWorkload returns nil if the cache does not know the state of the workload.
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
