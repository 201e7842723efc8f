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
	// ownTimers: waits up to this long are armed in this process too, as NATS
	// fires up to 250 ms late.
	ownTimers = time.Minute

	backoffFirst = 100 * time.Millisecond
	backoffMax   = time.Minute
	// holdMax is the longest wait that is left to a delivery: one that waits holds
	// a place among maxAckPending. Longer waits are timers.
	holdMax = 5 * time.Second

	// retryAfterMax is how long the API server can stop all runs by one answer.
	retryAfterMax = 30 * time.Second

	// runLimit ends a run that hangs: without it the key would wait as long, and no user would know.
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

// runKey is one run: lease, look, arm the timer, release, acknowledge. d is nil
// if no message but the process's own clock asked for it.
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

// callHandler calls the handler and makes a panic an error.
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

// applyResult arms the timer of the result, still under the lease so that no older timer overwrites a newer run's. It returns the answer to NATS.
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

// armTimer sets the timer in NATS, and in this process for short waits or if NATS
// does not take it. It says whether NATS has it.
func (c *consumer) armTimer(ctx context.Context, key Key, at time.Time) bool {
	if at.IsZero() {
		c.wakeKey(key, at)
		return true
	}
	// The process that set it may die, so that even a short wait goes to NATS.
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

// holdDelivery has the key run again after the delay, and keeps its delivery until then.
// It is not given back to NATS for that: a delivery more would look like a
// process more that died of it.
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

// leaseConflictDelay says how long to wait because another process works on the key.
func (c *consumer) leaseConflictDelay(key Key) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	e.conflicts++
	return conflictDelay(e.conflicts)
}

// resetLeaseFailures takes in that the lease was had, which ends both rows.
func (c *consumer) resetLeaseFailures(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryOf(key)
	e.conflicts, e.leaseErrors = 0, 0
}

// leaseErrorDelay says how long to wait because NATS does not tell whose the key is: 0.1 s
// doubling to holdMax, less up to a third. That is no failure of the key.
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

// throttleRuns begins no run for as long as the API server asked for, and returns
// when to come back with what it refused.
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
	// Deliveries that were refused together do not come back together.
	return pause + rand.N(pause/4+1)
}

// failureBackoff counts a failure of the key and says how long to wait: 0.1 s doubling
// to a minute, less up to a third so that many do not come back at once. With it
// comes how many failures there were in a row.
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

// recordFailure is backoff after a run; of a key that fails again and again it leaves
// word among the dead letters.
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
