package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ownTimers: waits up to this long are armed in this process too, as NATS
	// fires up to 250 ms late.
	ownTimers = time.Minute

	backoffFirst = 100 * time.Millisecond
	backoffMax   = time.Minute
	// nakMax is the longest wait that is left to a delivery: one that waits holds
	// a place among maxAckPending. Longer waits are timers.
	nakMax = 5 * time.Second

	conflictMax = 500 * time.Millisecond
	// rehintAt: so many deliveries spent on waiting for a lease are enough; a
	// fresh hint starts at one again, lest it is taken for poison.
	rehintAt = maxDeliver / 2
)

// work runs keys until the queue is shut down.
func (c *consumer) work(ctx context.Context) {
	for {
		key, shutdown := c.keys.Get()
		if shutdown {
			return
		}
		if d, ok := c.begin(key, time.Now()); ok {
			c.once(ctx, key, d)
			c.end(key)
		}
		c.keys.Done(key)
	}
}

// once is one run: lease, look, arm the timer, release, acknowledge. d is nil
// if no message but the process's own clock asked for it.
func (c *consumer) once(ctx context.Context, key Key, d *delivery) {
	l, err := c.queue.acquire(ctx, key, c.holder)
	if errors.Is(err, errHeld) {
		c.Metrics.conflicts.Inc()
		c.conflict(ctx, key, d)
		return
	}
	if err != nil {
		c.Logger.Warn("run is put off", "key", key.String(), "error", err)
		delay := c.backoff(key)
		c.settleIn(key, d, delay)
		return
	}
	start := time.Now()
	r := c.handle(ctx, key)
	c.Metrics.observe(r.Err, time.Since(start))
	settle := c.conclude(ctx, key, d, r)
	if err := l.release(context.WithoutCancel(ctx)); err != nil {
		c.Logger.Debug("lease is left to expire", "error", err)
	}
	settle()
}

// handle calls the handler and makes a panic an error.
func (c *consumer) handle(ctx context.Context, key Key) (r Result) {
	defer func() {
		if p := recover(); p != nil {
			c.Metrics.panics.Inc()
			c.Logger.Error("a run panicked, it will be tried again", "key", key.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r = Result{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return c.Handler(ctx, key)
}

// conclude arms what the result asks for, still under the lease so that no older
// timer overwrites a newer run's, and returns what is left to say to NATS.
func (c *consumer) conclude(ctx context.Context, key Key, d *delivery, r Result) (settle func()) {
	if r.Err != nil {
		delay := c.backoff(key)
		c.Logger.Debug("run ended in an error", "key", key.String(), "error", r.Err, "retryIn", delay)
		if d != nil && delay <= nakMax {
			c.wake(key, time.Time{})
			return func() { c.settle(d, nakIn(delay)) }
		}
		r.WakeAt = time.Now().Add(delay)
	} else {
		c.succeeded(key)
	}
	armed := c.arm(ctx, key, r.WakeAt)
	return func() {
		switch {
		case d == nil:
		case armed:
			c.settle(d, jetstream.Msg.Ack)
		default:
			c.settle(d, nakIn(time.Second))
		}
	}
}

// arm sets the timer in NATS, and in this process for short waits or if NATS
// does not take it. It says whether NATS has it.
func (c *consumer) arm(ctx context.Context, key Key, at time.Time) bool {
	if at.IsZero() {
		c.wake(key, at)
		return true
	}
	// The process that set it may die, so that even a short wait goes to NATS.
	if err := c.queue.Timer(context.WithoutCancel(ctx), key, at); err != nil {
		c.Logger.Warn("the timer is armed in this process only", "key", key.String(), "error", err)
		c.wake(key, at)
		return false
	}
	if time.Until(at) > ownTimers {
		at = time.Time{}
	}
	c.wake(key, at)
	return true
}

// settleIn has the key run again after the delay.
func (c *consumer) settleIn(key Key, d *delivery, delay time.Duration) {
	if d == nil {
		c.wake(key, time.Now().Add(delay))
		return
	}
	c.settle(d, nakIn(delay))
}

// conflict puts a run off because another process works on the key.
func (c *consumer) conflict(ctx context.Context, key Key, d *delivery) {
	if d == nil {
		c.mu.Lock()
		e := c.entry(key)
		e.conflicts++
		n := e.conflicts
		c.mu.Unlock()
		c.settleIn(key, nil, conflictDelay(n))
		return
	}
	if d.times < rehintAt {
		c.settle(d, nakIn(conflictDelay(int(d.times))))
		return
	}
	if err := c.queue.Hint(context.WithoutCancel(ctx), key); err != nil {
		c.Logger.Debug("renew hint", "key", key.String(), "error", err)
		c.settle(d, nakIn(conflictMax))
		return
	}
	// The fresh hint has replaced this one.
	c.settle(d, jetstream.Msg.Ack)
}

// conflictDelay is 15 to 40 ms for the first conflict, doubling to half a second.
func conflictDelay(n int) time.Duration {
	d := 15*time.Millisecond + rand.N(25*time.Millisecond)
	return min(d<<min(max(n-1, 0), 5), conflictMax)
}

// backoff counts a failure of the key and says how long to wait: 0.1 s doubling
// to a minute, less up to a third so that many do not come back at once.
func (c *consumer) backoff(key Key) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	d := min(backoffFirst<<min(e.failures, 10), backoffMax)
	e.failures++
	e.failedAt = time.Now()
	return d - rand.N(d/3)
}

func (c *consumer) succeeded(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	e.failures, e.conflicts = 0, 0
}
