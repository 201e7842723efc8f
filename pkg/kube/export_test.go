package kube

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Later makes the snapshot so much older, as if the process had been stopped, or younger.
func (s *Snapshot) Later(by time.Duration) { s.sure = s.sure.Add(-by) }

// Failing makes the client believe that the API server has failed to serve a resource for that long.
func (c *Client) Failing(of schema.GroupVersionResource, long time.Duration) {
	c.troubles.mu.Lock()
	defer c.troubles.mu.Unlock()
	known := c.troubles.all[of]
	known.first = known.first.Add(-long)
	c.troubles.all[of] = known
}
