package queue

import (
	"context"
	"time"
)

// keepLeaseFor is for how long a key that a process was busy with is left to it.
// Another process that took the key up at once would see it as it was before the
// writes of this one, as far as it looks through watches of its own.
const keepLeaseFor = time.Second

// keptBy begins the value of a lease without a holder. Its last holder may take it again at once, and others after keepLeaseFor, by the clocks of
// NATS and their own. A process whose clock is behind waits longer, until the lease expires.
const keptBy = "left by "

// keptLease is what a run leaves to the next one of its key here.
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

// releaseLease gives a lease up; with linger it is left to the next run of the key here.
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

// dropExpiredLeases drops kept leases that were not taken again. c.mu is held.
func (c *consumer) dropExpiredLeases(now time.Time) {
	for key, l := range c.keptLeases {
		if now.Sub(l.at) > keepLeaseFor {
			delete(c.keptLeases, key)
		}
	}
}
