package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reason says why a dead letter was written.
type Reason string

const (
	// Failing work is retried about every minute. The first successful run withdraws the letter.
	Failing Reason = "Failing"
	// Abandoned work is no longer retried, because every process that took it died or lost its connection before the
	// end. The next hint brings it back: a change, a timer, the watcher's resync, or a user's retry.
	Abandoned Reason = "Abandoned"
)

// DeadLetter reports work that does not get done.
type DeadLetter struct {
	Key    Key    `json:"rollout"`
	Reason Reason `json:"reason"`
	// Error is the last error, or says how the processes that tried have ended.
	Error string `json:"error"`
	// Attempts is the number of failed runs in a row, or of deliveries.
	Attempts uint64 `json:"attempts"`
	// Since is the time at which the first attempt began. Time is the time at which the letter was written.
	Since time.Time `json:"since"`
	Time  time.Time `json:"time"`
	// Process is the host that wrote the letter. Its log of that time has more.
	Process string `json:"process"`
}

const (
	// deadLetterEvery is the number of failures in a row for a letter. The first letter comes after two minutes.
	deadLetterEvery = 10
	// suspectAt is the delivery at which a key with a letter is abandoned again. Work that killed twenty processes must
	// not kill twenty more at every resync.
	suspectAt = 3
	// deadLettersReadEvery is how often a process reads which keys have letters.
	deadLettersReadEvery = 30 * time.Second
)

// abandonedMessage returns the error text of abandoned work.
func abandonedMessage(task string) string {
	who := "executors"
	if task == TaskAnalysis {
		who = "analyzers"
	}
	return "no process that took it up finished a run of it: each one died, hung or lost NATS meanwhile. " +
		"Look for crashes in the " + who + "' logs, and then retry it"
}

// shouldAbandon reports whether a delivery must not run again. That holds for the last delivery that NATS makes: if it
// failed too, no process would write a letter.
func (c *consumer) shouldAbandon(ctx context.Context, key Key, d *delivery) bool {
	c.mu.Lock()
	letter := c.deadLetterKeys[key] || !c.deadLettersRead
	c.mu.Unlock()
	if d.times < suspectAt || d.times >= maxDeliver || !letter {
		return d.times >= maxDeliver
	}
	l, err := c.queue.GetDeadLetter(ctx, key)
	return err == nil && l.Reason == Abandoned
}

// abandonWork writes a letter and removes the hint.
func (c *consumer) abandonWork(ctx context.Context, key Key, d *delivery) {
	letter := DeadLetter{Key: key, Reason: Abandoned, Error: abandonedMessage(key.Task), Attempts: d.times, Since: time.Now()}
	if meta, err := d.msg.Metadata(); err == nil {
		letter.Since = meta.Timestamp
	}
	if err := c.writeDeadLetter(ctx, letter); err != nil {
		// An advisory of NATS then stands for the letter.
		c.Logger.Warn("cannot write a dead letter", "key", key.String(), "error", err)
		c.settleDelivery(d, nakIn(holdMax))
		return
	}
	c.settleDelivery(d, jetstream.Msg.Term)
}

// reportFailing writes a letter about a key that keeps failing.
func (c *consumer) reportFailing(ctx context.Context, key Key, cause error, failures int) {
	c.mu.Lock()
	since := c.entryOf(key).failingSince
	c.mu.Unlock()
	letter := DeadLetter{Key: key, Reason: Failing, Error: cause.Error(), Attempts: uint64(failures), Since: since}
	if err := c.writeDeadLetter(ctx, letter); err != nil {
		c.Logger.Warn("cannot write a dead letter", "key", key.String(), "error", err)
	}
}

func (c *consumer) writeDeadLetter(ctx context.Context, letter DeadLetter) error {
	letter.Time = time.Now()
	letter.Process, _ = os.Hostname() // a letter without the host is still useful
	body, err := json.Marshal(letter)
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	m := nats.NewMsg(letter.Key.DeadLetterSubject())
	m.Header.Set("Content-Type", "application/json")
	m.Data = body
	if err := c.queue.publishMessage(context.WithoutCancel(ctx), m); err != nil {
		return fmt.Errorf("write dead letter of %s: %w", letter.Key, err)
	}
	c.Metrics.deadLetters.WithLabelValues(string(letter.Reason)).Inc()
	c.Logger.Error("work does not get done; there is a dead letter about it", "key", letter.Key.String(),
		"reason", letter.Reason, "attempts", letter.Attempts, "error", letter.Error)
	if c.OnDeadLetter != nil {
		c.OnDeadLetter(letter)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadLetterKeys[letter.Key] = true
	c.Metrics.deadLetterKeys.Set(float64(len(c.deadLetterKeys)))
	return nil
}

// removeDeadLetters removes the letters of a key whose work succeeds again.
func (c *consumer) removeDeadLetters(ctx context.Context, key Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := c.queue.purgeDeadLetters(ctx, key); err != nil {
		c.Logger.Debug("withdraw dead letter", "key", key.String(), "error", err)
		return
	}
	c.Logger.Info("work with a dead letter is well again", "key", key.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deadLetterKeys, key)
	c.Metrics.deadLetterKeys.Set(float64(len(c.deadLetterKeys)))
}

// followDeadLetters reads the letters that other processes write and remove.
func (c *consumer) followDeadLetters(ctx context.Context) {
	tick := time.NewTicker(deadLettersReadEvery)
	defer tick.Stop()
	for {
		if err := c.readDeadLetterKeys(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Debug("read which rollouts have dead letters", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *consumer) readDeadLetterKeys(ctx context.Context) error {
	of := keyScope{tasks: []string{c.Task}}
	if c.Task == TaskRelease {
		of.tasks = append(of.tasks, TaskRouting)
	}
	if c.Cluster != "*" {
		of.cluster = c.Cluster
	}
	var keys map[Key]bool
	if err := c.queue.withRecovery(ctx, func(ctx context.Context) (err error) {
		keys, err = c.queue.keysWithDeadLetters(ctx, of)
		return err
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadLetterKeys, c.deadLettersRead = keys, true
	c.Metrics.deadLetterKeys.Set(float64(len(keys)))
	return nil
}
