package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"k8s.io/client-go/util/workqueue"
)

// Result is what a run says about its key.
type Result struct {
	// WakeAt asks for another run at that time; zero means only a hint brings one.
	WakeAt time.Time
	// Err asks for another run after a backoff. WakeAt is then ignored.
	Err error
}

// Handler looks at one key. Its context ends some seconds after the process is
// asked to stop. A panic counts as an error.
type Handler func(ctx context.Context, key Key) Result

// ConsumeOptions say whose work is taken and what is done with it.
type ConsumeOptions struct {
	// Cluster whose rollouts are worked on; "*" takes all clusters' (then no
	// process may consume a single cluster on the same NATS).
	Cluster string
	// Workers is the number of keys worked on at once; at least 1.
	Workers int
	Handler Handler
	Logger  *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

const (
	ackWait = 6 * time.Second
	// maxDeliver counts only deliveries that a process died on: an error ends in
	// a fresh hint long before, and so does waiting for a lease.
	maxDeliver    = 20
	maxAckPending = 10_000

	// fetchWait is how long one pull request waits for work. It is never cut
	// short, as what NATS sends to it then would be lost until ackWait is over;
	// so it bounds how long a stop takes, and the way back after an outage.
	fetchWait   = time.Second
	attachRetry = 2 * time.Second

	// inProgressEvery keeps deliveries that are held from being delivered again.
	inProgressEvery = 2 * time.Second

	// stopGrace is what running handlers get to finish by themselves, stopBound
	// what they get after their context was cancelled.
	stopGrace = 10 * time.Second
	stopBound = 5 * time.Second
)

var errClosed = errors.New("consume: the queue was closed")

// consumer is one Consume call.
type consumer struct {
	ConsumeOptions
	queue  *Queue
	holder string
	keys   workqueue.TypedDelayingInterface[Key]
	// slots bounds the deliveries held here, so that others get their share.
	slots chan struct{}

	mu       sync.Mutex
	entries  map[Key]*entry
	stopping bool
}

// Consume works on hints and timers until ctx is done, then waits for running
// handlers, a bounded time, and gives the rest back. It survives losing NATS
// and its streams. It returns nil after an orderly stop.
func (q *Queue) Consume(ctx context.Context, o ConsumeOptions) error {
	if o.Cluster != "*" {
		if err := validName(o.Cluster); err != nil {
			return fmt.Errorf("consume cluster %q: %w", o.Cluster, err)
		}
	}
	if o.Logger == nil {
		o.Logger = q.log
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	o.Workers = max(1, o.Workers)
	// A few more than can run hide the round trip of the next fetch.
	hold := o.Workers + (o.Workers+3)/4
	c := &consumer{
		ConsumeOptions: o, queue: q, holder: nuid.Next(), entries: map[Key]*entry{},
		keys:  workqueue.NewTypedDelayingQueue[Key](),
		slots: make(chan struct{}, hold),
	}
	for range hold {
		c.slots <- struct{}{}
	}
	return c.serve(ctx)
}

func (c *consumer) serve(ctx context.Context) error {
	runs, cancelRuns := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRuns()
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	var keeper, workers sync.WaitGroup
	keeper.Go(func() { c.keep(held) })
	defer keeper.Wait()
	defer release()

	for range c.Workers {
		workers.Go(func() { c.work(runs) })
	}
	err := c.feed(ctx)

	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.keys.ShutDown()
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	if !closedWithin(done, stopGrace) {
		cancelRuns()
		if !closedWithin(done, stopBound) {
			err = errors.Join(err, fmt.Errorf("stop consuming: runs of %s did not end in time", strings.Join(c.running(), ", ")))
		}
	}
	c.giveBack()
	return err
}

func closedWithin(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// feed takes deliveries until ctx is done, attaching again whenever that breaks.
func (c *consumer) feed(ctx context.Context) error {
	wait, broken := 100*time.Millisecond, false
	for ctx.Err() == nil {
		cons, err := c.attach(ctx)
		if err == nil {
			if broken {
				c.Logger.Info("taking work from NATS again")
			}
			wait, broken = 100*time.Millisecond, false
			err = c.fetch(ctx, cons)
		}
		if c.queue.nc.IsClosed() {
			return errClosed
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !broken {
			c.Logger.Warn("cannot take work from NATS, trying on", "error", err)
			broken = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, attachRetry)
		}
	}
	return nil
}

// attach makes sure that the streams and the durable consumer exist. Consumers
// of two clusters have different names, so that two clusters on one NATS do not
// meet.
func (c *consumer) attach(ctx context.Context) (jetstream.Consumer, error) {
	if err := c.queue.mend(ctx); err != nil {
		return nil, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable: "executor", FilterSubject: workPrefix + ">",
		Description: "Executors", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver: maxDeliver, MaxAckPending: maxAckPending,
	}
	if c.Cluster != "*" {
		cfg.Durable = "executor-" + token(c.Cluster)
		cfg.FilterSubject = workPrefix + token(c.Cluster) + ".>"
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cons, err := c.queue.js.CreateConsumer(ctx, StreamWork, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		cons, err = c.queue.js.UpdateConsumer(ctx, StreamWork, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("make consumer %s: %w", cfg.Durable, err)
	}
	return cons, nil
}

// fetch takes deliveries into free slots. It returns nil when ctx is done, and
// an error when the consumer must be attached again.
func (c *consumer) fetch(ctx context.Context, cons jetstream.Consumer) error {
	for {
		free := c.reserve(ctx)
		if ctx.Err() != nil {
			c.free(free)
			return nil
		}
		batch, err := cons.Fetch(free, jetstream.FetchMaxWait(fetchWait))
		if err == nil {
			for msg := range batch.Messages() {
				free--
				c.take(msg)
			}
			err = batch.Error()
		}
		c.free(free)
		if err != nil {
			return fmt.Errorf("fetch work: %w", err)
		}
	}
}

// reserve waits for a free slot and takes all that are free.
func (c *consumer) reserve(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-c.slots:
	}
	for n := 1; ; n++ {
		select {
		case <-c.slots:
		default:
			return n
		}
	}
}

func (c *consumer) free(n int) {
	for range n {
		c.slots <- struct{}{}
	}
}
