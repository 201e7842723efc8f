package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// liveReadInterval is how long an executor observes a release through watches alone. A watch that has missed a change
// never shows it, even after a restart, and the release would wait for ever. So the next resync reads from the API
// server.
const liveReadInterval = 30 * time.Second

// liveReads remembers the last live observation of each release that is under way.
type liveReads struct {
	mu       sync.Mutex
	lastRead map[types.NamespacedName]time.Time
}

// isDue reports whether the next observation must be live.
func (d *liveReads) isDue(name types.NamespacedName, releasing bool, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !releasing {
		delete(d.lastRead, name)
		return false
	}
	last, known := d.lastRead[name]
	if known && now.Sub(last) < liveReadInterval {
		return false
	}
	if d.lastRead == nil || len(d.lastRead) >= maxTracked {
		d.lastRead = map[types.NamespacedName]time.Time{}
	}
	d.lastRead[name] = now
	return known
}

// isReleasing reports whether the watches show a release under way.
func (c *Client) isReleasing(name types.NamespacedName) bool {
	r, known := c.informers.rollouts.GetObject(name)
	return known && r != nil && r.Status.Sluice != nil && rollout.State(r.Status.Sluice.State).Releasing()
}
