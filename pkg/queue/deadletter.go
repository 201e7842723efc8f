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

// Reason says what became of the work of a dead letter.
type Reason string

const (
	// Failing work is tried again every minute or so; the letter is withdrawn by
	// the first run that succeeds.
	Failing Reason = "Failing"
	// Abandoned work is left alone, because whichever process took it up died or was
	// cut off before it was done. It comes back with the next hint: a change, a
	// timer, the watcher's resync, or a person's retry.
	Abandoned Reason = "Abandoned"
)

// DeadLetter tells of work that does not get done.
type DeadLetter struct {
	Key    Key    `json:"rollout"`
	Reason Reason `json:"reason"`
	// Error is the last error, or the known facts about the end of the processes that took the work up.
	Error string `json:"error"`
	// Attempts is how many failed: runs in a row, or deliveries.
	Attempts uint64 `json:"attempts"`
	// Since is when the first of them began, Time when the letter was written.
	Since time.Time `json:"since"`
	Time  time.Time `json:"time"`
	// Process is the host that wrote it; its log of that time has more.
	Process string `json:"process"`
}

const (
	// deadLetterEvery so many failures in a row are worth a letter: the first takes two minutes.
	deadLetterEvery = 10
	// suspectAt is the delivery at which a key that has a letter is given up
	// again: work that killed twenty processes must not kill twenty more at every
	// resync.
	suspectAt = 3
	// deadLettersReadEvery is how often a process looks which keys have letters.
	deadLettersReadEvery = 30 * time.Second
)

// abandonedMessage is the error of work that was given up.
func abandonedMessage(task string) string {
	who := "executors"
	if task == TaskAnalysis {
		who = "analyzers"
	}
	return "no process that took it up finished a run of it: each one died, hung or lost NATS meanwhile. " +
		"Look for crashes in the " + who + "' logs, and then retry it"
}

// shouldAbandon reports whether a delivery is not worth another run. The last delivery of NATS is not: if it failed too, no process could write the
// letter.
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

// abandonWork puts a letter where the hint was.
func (c *consumer) abandonWork(ctx context.Context, key Key, d *delivery) {
	letter := DeadLetter{Key: key, Reason: Abandoned, Error: abandonedMessage(key.Task), Attempts: d.times, Since: time.Now()}
	if meta, err := d.msg.Metadata(); err == nil {
		letter.Since = meta.Timestamp
	}
	if err := c.writeDeadLetter(ctx, letter); err != nil {
		// NATS tells of it instead.
		c.Logger.Warn("cannot write a dead letter", "key", key.String(), "error", err)
		c.settleDelivery(d, nakIn(holdMax))
		return
	}
	c.settleDelivery(d, jetstream.Msg.Term)
}

// reportFailing leaves word of a key that keeps failing.
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
	letter.Process, _ = os.Hostname() // without it the letter is still worth having
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

// removeDeadLetters removes the letters of a key that is well again.
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

// followDeadLetters keeps up with the letters that others write and remove.
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
