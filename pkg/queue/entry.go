package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
)

// forgetFailures is how long a key's failures count towards its backoff. A key that
// goes on failing is tried here again before: if it is not, others had success.
const forgetFailures = backoffMax + runLimit + time.Minute

// nakReturns is the delay before NATS delivers a returned message again: this process has stopped taking messages by then.
const nakReturns = 50 * time.Millisecond

// delivery is one message from NATS that is neither acknowledged nor given back.
type delivery struct {
	msg jetstream.Msg
	// at is when it came.
	at time.Time
	// seq orders the deliveries of a key; times counts how often this message
	// was delivered, to anybody.
	seq, times uint64
}

// entry is what this process knows of a key.
type entry struct {
	// next is the newest delivery that no run has taken, or nil.
	next *delivery
	// run is the delivery that the run under way has taken, or nil.
	run     *delivery
	working bool
	// due is when the key is to be looked at even without a delivery; zero: not.
	due time.Time
	// requeueTrace is the trace context of what this process itself found worth a run.
	requeueTrace string
	// requeued: it did so while a run was under way, which may have looked before.
	requeued bool
	// failures in a row, and the times of the first and the last.
	failures               int
	failingSince, failedAt time.Time
	// conflicts over the lease in a row, and attempts in a row to have it without an
	// answer.
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

// acceptDelivery notes a delivery and has its key run.
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
		// Not at once: it would come right back until the pull has ended.
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

// supersedeDelivery drops a delivery because a newer one waits. It tells NATS, or it
// would count as pending there until its time is over; unless both are
// deliveries of one message, which is not done yet.
func (c *consumer) supersedeDelivery(old, by *delivery) {
	if old.seq == by.seq {
		c.releaseSlots(1)
		return
	}
	c.settleDelivery(old, jetstream.Msg.Ack)
}

// beginRun hands a run what it is for, and the trace context that it continues, ""
// for none; ok is false if there is nothing to do.
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
	if e.requeued { // also if the run has armed a timer; the key is in a lane again
		e.due, e.requeued = time.Now(), false
	}
	if e.isIdle() {
		delete(c.entries, key)
	}
}

// wakeKey replaces the time of the key's next run in this process.
func (c *consumer) wakeKey(key Key, at time.Time) {
	c.mu.Lock()
	c.entryOf(key).due = at
	c.mu.Unlock()
	if !at.IsZero() {
		c.keys.AddAfter(key, time.Until(at))
	}
}

// followRequeued runs the keys that this process itself requeues. A trace treats such a key like a hint from NATS.
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

// settleDelivery ends a delivery by the given word to NATS and frees its slot. A word
// that gets lost means one more delivery.
func (c *consumer) settleDelivery(d *delivery, say func(jetstream.Msg) error) {
	if err := say(d.msg); err != nil {
		c.Logger.Debug("settle delivery", "subject", d.msg.Subject(), "error", err)
	}
	c.releaseSlots(1)
}

func nakIn(delay time.Duration) func(jetstream.Msg) error {
	return func(m jetstream.Msg) error { return m.NakWithDelay(delay) }
}

// extendDeliveries tells NATS every two seconds that the deliveries held here are alive,
// tells others when there is nothing to do here, and forgets failures of old.
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

// sweepEntries returns the deliveries held, and drops entries that say nothing.
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

// stopTaking begins no run any more, and gives back all deliveries that no run has
// taken, for others to have.
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
