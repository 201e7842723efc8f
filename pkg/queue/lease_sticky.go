package queue

import (
	"context"
	"time"
)

// keepLeaseFor is how long other processes leave a key to the process that was busy with it. Another process could
// otherwise take the key while its own watches do not show the writes of this process yet.
const keepLeaseFor = time.Second

// keptBy is the prefix of the value of a lease that was left. Its last holder may take it again at once, others after
// keepLeaseFor. They compare the clock of NATS with their own. A process whose clock is behind waits longer, until the
// lease expires.
const keptBy = "left by "

// keptLease is a lease that a run leaves to the next run of its key here.
type keptLease struct {
	lease *lease
	at    time.Time
}

// leaseFor takes the lease that the last run of the key has left, or a new one.
func (c *consumer) leaseFor(ctx context.Context, key Key) (*lease, error) {
	c.mu.Lock()
	last, ok := c.keptLeases[key]
	delete(c.keptLeases, key)
	c.mu.Unlock()
	if ok && last.lease.retakeKept(ctx) == nil {
		return last.lease, nil
	}
	return c.queue.acquireLease(ctx, key, c.holder)
}

// releaseLease releases a lease; with linger it leaves the lease to the next run of the key here.
func (c *consumer) releaseLease(ctx context.Context, key Key, l *lease, linger bool) {
	give := l.release
	if linger {
		give = l.keepForHolder
	}
	err := give(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		c.Logger.Debug("lease is left to expire", "error", err)
	case l.lost:
		c.Metrics.lostLeases.Inc()
	case linger:
		c.mu.Lock()
		c.keptLeases[key] = keptLease{l, time.Now()}
		c.mu.Unlock()
	}
}

// dropExpiredLeases drops the leases that no run has taken again. c.mu is held.
func (c *consumer) dropExpiredLeases(now time.Time) {
	for key, l := range c.keptLeases {
		if now.Sub(l.at) > keepLeaseFor {
			delete(c.keptLeases, key)
		}
	}
}
