package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// idlePrefix is where processes with free workers say so. Nothing of it is stored.
const idlePrefix = "sluice.idle."

func (c *consumer) idleSubject() string {
	subject := idlePrefix + "all"
	if c.Cluster != "*" {
		subject = idlePrefix + subjectToken(c.Cluster)
	}
	if c.Task != TaskRelease {
		subject += "." + c.Task
	}
	return subject
}

// announceIdle tells the other processes that workers are free here, if any are. They may
// hold work for which they have none: because this process has just started, or
// because theirs are busy with something slow.
func (c *consumer) announceIdle() {
	if !c.fairQueue.hasIdleWorkers(time.Now()) {
		return
	}
	if err := c.queue.nc.Publish(c.idleSubject(), []byte(c.holder)); err != nil {
		c.Logger.Debug("say that workers are free", "error", err)
	}
}

// listenIdle gives to those who beg.
func (c *consumer) listenIdle() (stop func(), err error) {
	s, err := c.queue.nc.Subscribe(c.idleSubject(), func(m *nats.Msg) {
		if string(m.Data) != c.holder {
			c.shedHints()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for processes with free workers: %w", err)
	}
	return func() { _ = s.Unsubscribe() }, nil // fails only without a connection
}

// shedHints returns half of what waits here to NATS, the newest: the rest is likely
// to have its turn before it could get one elsewhere.
func (c *consumer) shedHints() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var waiting []*entry
	for _, e := range c.entries {
		// Being given back counts as a delivery, and must not look like poison.
		if e.next != nil && !e.working && e.next.times < maxDeliver/2 {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(a, b *entry) int { return cmp.Compare(a.next.seq, b.next.seq) })
	if len(waiting) == 0 || c.stopping {
		return
	}
	// Taking on, this process would get half of it back.
	c.shedAt = time.Now()
	if c.drainPull != nil {
		c.drainPull()
	}
	for _, e := range waiting[len(waiting)/2:] {
		c.settleDelivery(e.next, nakIn(nakReturns))
		e.next = nil
		c.Metrics.shedHints.Inc()
	}
}
