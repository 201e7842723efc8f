package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// feedConsumer takes deliveries until ctx is done, and attaches again after each error. The argument "what" names the
// deliveries in the log.
func (q *Queue) feedConsumer(ctx context.Context, log *slog.Logger, what string,
	attach func(context.Context) (jetstream.Consumer, error), fetch func(context.Context, jetstream.Consumer) error) error {
	wait, broken := attachFirst, false
	for ctx.Err() == nil {
		cons, err := attach(ctx)
		if err == nil {
			if broken {
				log.Info("taking from NATS again", "what", what)
			}
			wait, broken = attachFirst, false
			err = fetch(ctx, cons)
		}
		if q.nc.IsClosed() {
			return errClosed
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !broken {
			log.Warn("cannot take from NATS, trying on", "what", what, "error", err)
			broken = true
		}
		closedWithin(ctx.Done(), wait)
		wait = min(2*wait, attachRetry)
	}
	return nil
}

// attachConsumer makes sure that the streams and the durable consumer exist. Consumers of two clusters have different
// names, so two clusters can share one NATS.
func (c *consumer) attachConsumer(ctx context.Context) (jetstream.Consumer, error) {
	if err := withAnswerTimeout(ctx, c.queue.ensureStreams); err != nil {
		return nil, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable: "executor", Description: "Executors", FilterSubject: hintPrefix(c.Task) + ">",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: maxDeliver, MaxAckPending: maxAckPending,
	}
	switch c.Task {
	case TaskAnalysis:
		cfg.Durable, cfg.Description = "analyzer", "Analyzers"
	case TaskFleet:
		cfg.Durable, cfg.Description = "hub", "Executors of a hub"
	}
	if c.Cluster != "*" {
		cfg.Durable += "-" + subjectToken(c.Cluster)
		cfg.FilterSubject = hintPrefix(c.Task) + subjectToken(c.Cluster) + ".>"
	}
	var cons jetstream.Consumer
	if err := withAnswerTimeout(ctx, func(ctx context.Context) (err error) {
		cons, err = c.queue.js.CreateConsumer(ctx, StreamWork, cfg)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			cons, err = c.queue.js.UpdateConsumer(ctx, StreamWork, cfg)
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("make consumer %s: %w", cfg.Durable, err)
	}
	c.Metrics.setConsumer(cons)
	return cons, nil
}

// fetchWork takes deliveries into free slots. It returns nil when ctx is done, and an error when the consumer must be
// attached again.
func (c *consumer) fetchWork(ctx context.Context, cons jetstream.Consumer) error {
	for ctx.Err() == nil {
		if wait := c.pullPause(time.Now()); wait > 0 {
			closedWithin(ctx.Done(), wait)
			continue
		}
		free := c.reserveSlots(ctx)
		taken, err := c.pullDeliveries(ctx, cons, free)
		c.releaseSlots(free - taken)
		if err != nil {
			return fmt.Errorf("fetch work: %w", err)
		}
	}
	return nil
}

// pullPause returns how long this process must not take deliveries. It waits while no run may begin, and until other
// processes have taken the work that it returned for them.
func (c *consumer) pullPause(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.fairQueue.pauseLeft(now), c.shedAt.Add(2*nakReturns).Sub(now))
}

// pullDeliveries takes up to that many deliveries, and fewer when ctx is done or the API server asks to wait. It ends
// by draining, so it also takes the messages that NATS is sending at that moment. Otherwise they would be lost until
// ackWait is over.
func (c *consumer) pullDeliveries(ctx context.Context, cons jetstream.Consumer, most int) (taken int, err error) {
	if most == 0 {
		return 0, nil
	}
	deliveries, err := cons.Messages(jetstream.PullMaxMessages(most), jetstream.StopAfter(most),
		jetstream.PullExpiry(pullExpires), jetstream.PullHeartbeat(pullBeat))
	if err != nil {
		return 0, err
	}
	defer deliveries.Stop()
	defer context.AfterFunc(ctx, deliveries.Drain)()
	c.mu.Lock()
	c.drainPull = deliveries.Drain
	c.mu.Unlock()
	for {
		msg, err := deliveries.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) && !c.queue.nc.IsClosed() {
			return taken, nil
		}
		if err != nil {
			return taken, err
		}
		taken++
		c.acceptDelivery(msg)
	}
}

// reserveSlots waits for a free slot and takes all free slots.
func (c *consumer) reserveSlots(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-c.freeSlots:
	}
	for n := 1; ; n++ {
		select {
		case <-c.freeSlots:
		default:
			return n
		}
	}
}

func (c *consumer) releaseSlots(n int) {
	for range n {
		c.freeSlots <- struct{}{}
	}
}
