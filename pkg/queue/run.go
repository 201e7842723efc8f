package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
)

const (
	// ownTimers is the longest wait that this process also times itself, because NATS fires up to 250 ms late.
	ownTimers = time.Minute

	backoffFirst = 100 * time.Millisecond
	backoffMax   = time.Minute
	// holdMax is the longest wait of a held delivery, which counts against maxAckPending. Longer waits are timers.
	holdMax = 5 * time.Second

	// retryAfterMax is how long the API server can stop all runs by one answer.
	retryAfterMax = 30 * time.Second

	// runLimit ends a run that hangs. Until then its key does not run, and no other process notices.
	runLimit = 2 * time.Minute

	conflictMax = 500 * time.Millisecond
)

// runWorker runs keys until the queue is shut down.
func (c *consumer) runWorker(ctx context.Context) {
	for {
		key, shutdown := c.keys.Get()
		if shutdown {
			return
		}
		if d, traceparent, ok := c.beginRun(key, time.Now()); ok {
			c.runKey(WithTraceparent(ctx, traceparent), key, d)
			c.endRun(key)
		}
		c.keys.Done(key)
	}
}

// runKey is one run: take the lease, call the handler, arm the timer, release, acknowledge. d is nil if the process's
// own timer caused the run, and no message did.
func (c *consumer) runKey(ctx context.Context, key Key, d *delivery) {
	if d != nil && c.shouldAbandon(ctx, key, d) {
		c.abandonWork(ctx, key, d)
		return
	}
	l, err := c.leaseFor(ctx, key)
	if errors.Is(err, errHeld) {
		c.Metrics.conflicts.Inc()
		c.holdDelivery(key, d, c.leaseConflictDelay(key))
		return
	}
	if err != nil {
		c.Logger.Warn("run is put off", "key", key.String(), "error", err)
		c.holdDelivery(key, d, c.leaseErrorDelay(key))
		return
	}
	c.resetLeaseFailures(key)
	start := time.Now()
	if d != nil {
		c.Metrics.waits.Observe(start.Sub(d.at).Seconds())
	}
	r := c.callHandler(context.WithValue(ctx, leaseKey{}, l), key)
	c.Metrics.observeRun(r.Err, time.Since(start))
	settle := c.applyResult(ctx, key, d, r)
	c.releaseLease(ctx, key, l, r.KeepLease)
	settle()
}

// callHandler calls the handler and turns a panic into an error.
func (c *consumer) callHandler(ctx context.Context, key Key) (r Result) {
	ctx, run := startSpan(ctx, "run", trace.SpanKindConsumer, key)
	defer func() { endSpan(run, r.Err) }()
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			c.Metrics.panics.Inc()
			c.Logger.Error("a run panicked, it will be retried", "key", key.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r = Result{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return c.Handler(ctx, key)
}

// applyResult arms the timers of the result, and returns the function that settles the delivery. It arms them under the
// lease, so that no older timer overwrites the timer of a newer run.
func (c *consumer) applyResult(ctx context.Context, key Key, d *delivery, r Result) (settle func()) {
	slow := c.throttleRuns(r.RetryAfter)
	if r.Err != nil {
		delay := slow
		if slow == 0 {
			delay = c.recordFailure(ctx, key, r.Err)
		}
		c.Metrics.retries.Inc()
		c.Logger.Debug("run ended in an error", "key", key.String(), "error", r.Err, "retryIn", delay)
		if d != nil && delay <= holdMax {
			c.wakeKey(key, time.Time{})
			return func() { c.holdDelivery(key, d, delay) }
		}
		r.WakeAt = time.Now().Add(delay)
	} else {
		c.recordSuccess(ctx, key)
	}
	armed := c.armTimer(ctx, key, r.WakeAt)
	return func() {
		switch {
		case d == nil:
		case armed:
			c.settleDelivery(d, jetstream.Msg.Ack)
		default:
			c.holdDelivery(key, d, time.Second)
		}
	}
}

// armTimer sets the timer in NATS. It also sets it in this process for short waits, or if NATS does not take it. It
// reports whether NATS has it.
func (c *consumer) armTimer(ctx context.Context, key Key, at time.Time) bool {
	if at.IsZero() {
		c.wakeKey(key, at)
		return true
	}
	// This process may die, so even a short wait goes to NATS.
	if err := c.queue.SetTimer(context.WithoutCancel(ctx), key, at); err != nil {
		c.Logger.Warn("the timer is armed in this process only", "key", key.String(), "error", err)
		c.wakeKey(key, at)
		return false
	}
	if time.Until(at) > ownTimers {
		at = time.Time{}
	}
	c.wakeKey(key, at)
	return true
}

// holdDelivery runs the key again after the delay, and keeps its delivery until then. It does not return the delivery
// to NATS, because another delivery would look like another process that died.
func (c *consumer) holdDelivery(key Key, d *delivery, delay time.Duration) {
	if d == nil {
		c.wakeKey(key, time.Now().Add(delay))
		return
	}
	c.mu.Lock()
	e := c.entryOf(key)
	newer, stopping := e.next, c.stopping
	if newer == nil && !stopping {
		e.next = d
	}
	c.mu.Unlock()
	switch {
	case stopping:
		c.settleDelivery(d, jetstream.Msg.Nak)
	case newer != nil:
		c.supersedeDelivery(d, newer)
	default:
		c.keys.AddAfter(key, delay)
	}
}

// leaseConflictDelay returns how long to wait while another process works on the key.
func (c *consumer) leaseConflictDelay(key Key) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	e.conflicts++
	return conflictDelay(e.conflicts)
}

// resetLeaseFailures notes that the lease was taken, which resets both counts.
func (c *consumer) resetLeaseFailures(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	e.conflicts, e.leaseErrors = 0, 0
}

// leaseErrorDelay returns how long to wait when NATS does not say which process holds the lease. It is 0.1 s, doubling
// to holdMax, less up to a third. That is not a failure of the key.
func (c *consumer) leaseErrorDelay(key Key) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	delay := min(backoffFirst<<min(e.leaseErrors, 10), holdMax)
	e.leaseErrors++
	return delay - rand.N(delay/3)
}

// conflictDelay is 15 to 40 ms for the first conflict, doubling to half a second.
func conflictDelay(n int) time.Duration {
	d := 15*time.Millisecond + rand.N(25*time.Millisecond)
	return min(d<<min(max(n-1, 0), 5), conflictMax)
}

// throttleRuns begins no run for as long as the API server asked for. It returns the delay of the key that the API
// server refused.
func (c *consumer) throttleRuns(asked time.Duration) (delay time.Duration) {
	if asked <= 0 {
		return 0
	}
	pause := min(asked, retryAfterMax)
	now := time.Now()
	added := pause - max(c.fairQueue.pauseLeft(now), 0)
	c.fairQueue.pauseUntil(now.Add(pause))
	c.mu.Lock()
	if c.drainPull != nil {
		c.drainPull()
	}
	c.mu.Unlock()
	c.Metrics.throttled.Inc()
	if added > 0 {
		c.Metrics.throttledSeconds.Add(added.Seconds())
	}
	// Keys that were refused together must not come back together.
	return pause + rand.N(pause/4+1)
}

// failureBackoff counts a failure of the key and returns the delay: 0.1 s, doubling to a minute, less up to a third so
// that many keys do not come back at once. It also returns the number of failures in a row.
func (c *consumer) failureBackoff(key Key) (delay time.Duration, failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	delay = min(backoffFirst<<min(e.failures, 10), backoffMax)
	e.failedAt = time.Now()
	if e.failures == 0 {
		e.failingSince = e.failedAt
	}
	e.failures++
	return delay - rand.N(delay/3), e.failures
}

// recordFailure is failureBackoff after a run. It writes a dead letter for a key that fails again and again.
func (c *consumer) recordFailure(ctx context.Context, key Key, err error) time.Duration {
	delay, failures := c.failureBackoff(key)
	if failures%deadLetterEvery == 0 {
		c.reportFailing(ctx, key, err, failures)
	}
	return delay
}

func (c *consumer) recordSuccess(ctx context.Context, key Key) {
	c.mu.Lock()
	e := c.entryOf(key)
	e.failures = 0
	letter := c.deadLetterKeys[key]
	c.mu.Unlock()
	if letter {
		c.removeDeadLetters(ctx, key)
	}
}
