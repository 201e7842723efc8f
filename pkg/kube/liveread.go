package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/rollout"
)

// doubtAfter is for how long a release is looked at through watches alone. A watch that has kept something back says nothing more of
// it, also when it is begun anew, and the release would wait for ever: the next resync looks at the API server.
const doubtAfter = 30 * time.Second

// doubts remember when each release under way was last looked at live.
type doubts struct {
	mu   sync.Mutex
	live map[types.NamespacedName]time.Time
}

// due reports whether it is time to look live.
func (d *doubts) due(name types.NamespacedName, releasing bool, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !releasing {
		delete(d.live, name)
		return false
	}
	last, known := d.live[name]
	if known && now.Sub(last) < doubtAfter {
		return false
	}
	if d.live == nil || len(d.live) >= manyRecent {
		d.live = map[types.NamespacedName]time.Time{}
	}
	d.live[name] = now
	return known
}

// releasing reports whether a release is under way, as far as the watches have shown.
func (c *Client) releasing(name types.NamespacedName) bool {
	r, known := c.mirrors.rollouts.get(name)
	return known && r != nil && r.Status.Sluice != nil && rollout.State(r.Status.Sluice.State).Releasing()
}
