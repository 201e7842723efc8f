package kube

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Later makes the snapshot older by a duration, as if the process had been stopped, or younger.
func (s *Snapshot) Later(by time.Duration) { s.observedAt = s.observedAt.Add(-by) }

// Failing makes the client believe that the API server has failed to serve a resource for that long.
func (c *Client) Failing(of schema.GroupVersionResource, long time.Duration) {
	c.serverErrors.mu.Lock()
	defer c.serverErrors.mu.Unlock()
	known := c.serverErrors.all[of]
	known.first = known.first.Add(-long)
	c.serverErrors.all[of] = known
}
