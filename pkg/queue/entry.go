package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
)

// forgetFailures is how long a key's failures count towards its backoff. A failing key is retried here sooner than
// that. If it is not, another process has succeeded.
const forgetFailures = backoffMax + runLimit + time.Minute

// nakReturns is the delay after which NATS redelivers a returned message. By then this process has stopped taking.
const nakReturns = 50 * time.Millisecond

// delivery is one message from NATS that is neither acknowledged nor returned.
type delivery struct {
	msg jetstream.Msg
	// at is the time of its arrival.
	at time.Time
	// seq orders the deliveries of a key. times counts the deliveries of this message, to all processes.
	seq, times uint64
}

// entry is the state of a key in this process.
type entry struct {
	// next is the newest delivery that no run has taken, or nil.
	next *delivery
	// run is the delivery that the run under way has taken, or nil.
	run     *delivery
	working bool
	// due is the time of the next run without a delivery, zero for none.
	due time.Time
	// requeueTrace is the trace context of this process's own request for a run.
	requeueTrace string
	// requeued is true if that request came during a run, which may have looked before the change.
	requeued bool
	// failures is the number of failures in a row. failingSince and failedAt are the times of the first and the last.
	failures               int
	failingSince, failedAt time.Time
	// conflicts is the number of lease conflicts in a row. leaseErrors is the number of attempts in a row to get the
	// lease without an answer.
	conflicts, leaseErrors int
}

func (e *entry) isIdle() bool {
	return e.next == nil && !e.working && e.due.IsZero() && e.failures == 0
}

// entryOf returns the entry of a key. c.mu is held.
func (c *consumer) entryOf(key Key) *entry {
	e := c.entries[key]
	if e == nil {
		e = &entry{}
		c.entries[key] = e
	}
	return e
}

// acceptDelivery notes a delivery and queues its key.
func (c *consumer) acceptDelivery(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	var key Key
	if err == nil {
		key, err = ParseSubject(msg.Subject())
	}
	if err != nil {
		c.Logger.Warn("dropping a message that is no hint", "subject", msg.Subject(), "error", err)
		c.settleDelivery(&delivery{msg: msg}, jetstream.Msg.Term)
		return
	}
	d := &delivery{msg: msg, at: time.Now(), seq: meta.Sequence.Stream, times: meta.NumDelivered}
	c.Metrics.hints.Inc()
	if d.times > 1 {
		c.Metrics.redeliveries.Inc()
	}
	c.mu.Lock()
	if c.stopping {
		c.mu.Unlock()
		// With a delay: without one it would come back until the pull has ended.
		c.settleDelivery(d, nakIn(nakReturns))
		return
	}
	e := c.entryOf(key)
	old := e.next
	if old != nil && old.seq > d.seq {
		old, d = d, old
	}
	e.next = d
	c.mu.Unlock()
	if old != nil {
		c.supersedeDelivery(old, d)
	}
	c.keys.Add(key)
}

// supersedeDelivery drops a delivery because a newer one waits. It acknowledges the delivery, which would otherwise
// count as pending until its ack wait is over. It does not acknowledge a delivery of the same message, which is not
// done yet.
func (c *consumer) supersedeDelivery(old, by *delivery) {
	if old.seq == by.seq {
		c.releaseSlots(1)
		return
	}
	c.settleDelivery(old, jetstream.Msg.Ack)
}

// beginRun returns the delivery of a run, and the trace context that it continues, "" for none. ok is false if there is
// nothing to do.
func (c *consumer) beginRun(key Key, now time.Time) (d *delivery, traceparent string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || c.stopping {
		return nil, "", false
	}
	dueNow := !e.due.IsZero() && !now.Before(e.due)
	if e.next == nil && !dueNow {
		return nil, "", false
	}
	e.run, e.next, e.working, e.requeued = e.next, nil, true, false
	if dueNow {
		e.due = time.Time{}
		traceparent, e.requeueTrace = e.requeueTrace, ""
	}
	if e.run != nil {
		traceparent = e.run.msg.Headers().Get(headerTrace)
	}
	return e.run, traceparent, true
}

// endRun marks the run as over.
func (c *consumer) endRun(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	e.run, e.working = nil, false
	if e.requeued { // regardless of the timer of the run; the key is queued once more
		e.due, e.requeued = time.Now(), false
	}
	if e.isIdle() {
		delete(c.entries, key)
	}
}

// wakeKey sets the time of the key's next run here, in place of the time that was set before.
func (c *consumer) wakeKey(key Key, at time.Time) {
	c.mu.Lock()
	c.entryOf(key).due = at
	c.mu.Unlock()
	if !at.IsZero() {
		c.keys.AddAfter(key, time.Until(at))
	}
}

// followRequeued runs the keys that this process itself requests. For a trace such a request is a hint, like the hints
// of NATS.
func (c *consumer) followRequeued(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-c.Requeue:
			asked, hint := startSpan(ctx, "hint", trace.SpanKindInternal, key)
			hint.End()
			c.mu.Lock()
			e := c.entryOf(key)
			e.requeueTrace, e.requeued = traceparentOf(asked), e.working
			c.mu.Unlock()
			c.wakeKey(key, time.Now())
		}
	}
}

// settleDelivery sends the outcome of a delivery to NATS and frees its slot. A lost message costs one more delivery.
func (c *consumer) settleDelivery(d *delivery, say func(jetstream.Msg) error) {
	if err := say(d.msg); err != nil {
		c.Logger.Debug("settle delivery", "subject", d.msg.Subject(), "error", err)
	}
	c.releaseSlots(1)
}

func nakIn(delay time.Duration) func(jetstream.Msg) error {
	return func(m jetstream.Msg) error { return m.NakWithDelay(delay) }
}

// extendDeliveries extends the held deliveries every two seconds. It also announces free workers to other processes,
// and forgets old failures.
func (c *consumer) extendDeliveries(ctx context.Context) {
	tick := time.NewTicker(inProgressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, d := range c.sweepEntries(now) {
				if err := d.msg.InProgress(); err != nil {
					c.Logger.Debug("keep delivery", "subject", d.msg.Subject(), "error", err)
				}
			}
			c.announceIdle()
		}
	}
}

// sweepEntries returns the held deliveries, and drops entries without a state.
func (c *consumer) sweepEntries(now time.Time) []*delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	var held []*delivery
	for key, e := range c.entries {
		for _, d := range []*delivery{e.run, e.next} {
			if d != nil {
				held = append(held, d)
			}
		}
		if e.failures > 0 && now.Sub(e.failedAt) > forgetFailures {
			e.failures = 0
		}
		if e.isIdle() {
			delete(c.entries, key)
		}
	}
	c.dropExpiredLeases(now)
	c.Metrics.bufferedHints.Set(float64(len(held)))
	c.Metrics.depth.Set(float64(c.fairQueue.Len()))
	return held
}

// stopTaking begins no more runs, and returns all deliveries that no run has taken, so that other processes can take
// them.
func (c *consumer) stopTaking() {
	c.keys.ShutDown()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, e := range c.entries {
		if e.next != nil {
			c.settleDelivery(e.next, jetstream.Msg.Nak)
			e.next = nil
		}
	}
}

func (c *consumer) runningKeys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	for key, e := range c.entries {
		if e.working {
			keys = append(keys, key.String())
		}
	}
	return keys
}
