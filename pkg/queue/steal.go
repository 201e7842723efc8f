package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// idlePrefix is the prefix of the subjects on which processes announce free workers. NATS does not store these
// messages.
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

// announceIdle tells the other processes that this one has free workers, if it has any. The others may hold work
// without a free worker, because this process has just started, or because their workers are busy with slow work.
func (c *consumer) announceIdle() {
	if !c.fairQueue.hasIdleWorkers(time.Now()) {
		return
	}
	if err := c.queue.nc.Publish(c.idleSubject(), []byte(c.holder)); err != nil {
		c.Logger.Debug("say that workers are free", "error", err)
	}
}

// listenIdle sheds work for processes with free workers.
func (c *consumer) listenIdle() (stop func(), err error) {
	s, err := c.queue.nc.Subscribe(c.idleSubject(), func(m *nats.Msg) {
		if string(m.Data) != c.holder {
			c.shedHints()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for processes with free workers: %w", err)
	}
	return func() { _ = s.Unsubscribe() }, nil // it fails only without a connection
}

// shedHints returns the newer half of the waiting deliveries to NATS. The older half will probably run here before it
// could run elsewhere.
func (c *consumer) shedHints() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var waiting []*entry
	for _, e := range c.entries {
		// A returned message counts as delivered. It must not look like work that kills processes.
		if e.next != nil && !e.working && e.next.times < maxDeliver/2 {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(a, b *entry) int { return cmp.Compare(a.next.seq, b.next.seq) })
	if len(waiting) == 0 || c.stopping {
		return
	}
	// If this process went on taking, it would get half of the returned work back.
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
