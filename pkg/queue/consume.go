package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	"k8s.io/client-go/util/workqueue"
)

// Result is the result of a run of a key.
type Result struct {
	// WakeAt asks for another run at that time. If it is zero, only a hint causes another run.
	WakeAt time.Time
	// Err asks for another run after a backoff. WakeAt is then ignored.
	Err error
	// RetryAfter is how long the API server asked to wait. This process begins no run before that time is over, for
	// half a minute at most. With Err, the key runs again then, and its failure does not count.
	RetryAfter time.Duration
	// KeepLease keeps other processes away from the key for one more second. It is for a busy run in a process that
	// learns of changes to the key by itself, see [ConsumeOptions].
	KeepLease bool
}

// Handler reconciles one key. Its context ends after two minutes, or some seconds after the process is asked to stop. A
// panic counts as an error.
type Handler func(ctx context.Context, key Key) Result

// ConsumeOptions configure [Queue.Consume].
type ConsumeOptions struct {
	// Cluster is the cluster of the rollouts; "*" takes all clusters. Then no process may consume a single cluster on
	// the same NATS.
	Cluster string
	// Task is the task to consume: TaskRelease, the zero value, which includes TaskRouting, or TaskAnalysis.
	Task string
	// Workers is the number of keys handled at once; at least 1. A quarter more workers are reserved for namespaces
	// without a key under way.
	Workers int
	Handler Handler
	// Requeue has keys that this process itself wants to run. It may be nil, and must not be closed.
	Requeue <-chan Key
	// OnDeadLetter, if set, is called with each dead letter that this process has written. It must return soon.
	OnDeadLetter func(DeadLetter)
	Logger       *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

const (
	ackWait = 6 * time.Second
	// maxDeliver counts deliveries to processes that died. A delivery that waits, for a lease or after an error, is
	// held. Work that moves between processes counts too, but only for a short time.
	maxDeliver    = 20
	maxAckPending = 10_000

	// depth is how many deliveries a process holds. To be fair it must see far into the stream, because a delivery that
	// it does not hold yet waits for all earlier ones.
	depth = 1000

	// pullExpires is how long NATS goes on sending to a process that has stopped reading. A process notices the loss of
	// NATS after twice pullBeat of silence.
	pullExpires = 4 * time.Second
	pullBeat    = 2 * time.Second

	// fetchWait is how long a single batch waits for messages.
	fetchWait   = time.Second
	attachFirst = 100 * time.Millisecond
	attachRetry = 2 * time.Second

	// inProgressEvery is how often a process extends its held deliveries, so that NATS does not deliver them again.
	inProgressEvery = 2 * time.Second

	// stopGrace is how long running handlers may take to finish by themselves. After that their context is cancelled,
	// and stopBound is how long they may still take.
	stopGrace = 10 * time.Second
	stopBound = 5 * time.Second
)

var errClosed = errors.New("consume: the queue was closed")

// consumer is one Consume call.
type consumer struct {
	ConsumeOptions
	queue     *Queue
	holder    string
	fairQueue *fairQueue
	// keys is fairQueue, with delays.
	keys workqueue.TypedDelayingInterface[Key]
	// freeSlots bounds the deliveries held here.
	freeSlots chan struct{}

	mu      sync.Mutex
	entries map[Key]*entry
	// deadLetterKeys are the keys with a dead letter, as far as this process knows. Until deadLettersRead they are only
	// the keys of its own letters.
	deadLetterKeys  map[Key]bool
	deadLettersRead bool
	// keptLeases are the leases that runs have left to the next runs here.
	keptLeases map[Key]keptLease
	// drainPull ends the pull under way.
	drainPull func()
	// shedAt is the time at which this process last returned work for others.
	shedAt   time.Time
	stopping bool
}

// Consume handles hints and timers until ctx is done. Then it waits a bounded time for running handlers, and returns
// the other deliveries to NATS. It survives the loss of NATS and of its streams. It returns nil after an orderly stop.
func (q *Queue) Consume(ctx context.Context, o ConsumeOptions) error {
	if o.Cluster != "*" {
		if err := validName(o.Cluster); err != nil {
			return fmt.Errorf("consume cluster %q: %w", o.Cluster, err)
		}
	}
	if err := validTask(o.Task); err != nil {
		return fmt.Errorf("consume cluster %q: %w", o.Cluster, err)
	}
	return q.newConsumer(o).consumeTask(ctx)
}

func (q *Queue) newConsumer(o ConsumeOptions) *consumer {
	if o.Logger == nil {
		o.Logger = q.log
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil, o.Task)
	}
	o.Workers = max(1, o.Workers)
	express := (o.Workers + 3) / 4
	lanes := newFairQueue(o.Workers, express)
	c := &consumer{
		ConsumeOptions: o, queue: q, holder: nuid.Next(), entries: map[Key]*entry{}, fairQueue: lanes,
		keys:      workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Queue: lanes}),
		freeSlots: make(chan struct{}, max(depth, 2*(o.Workers+express))), deadLetterKeys: map[Key]bool{}, keptLeases: map[Key]keptLease{},
	}
	c.releaseSlots(cap(c.freeSlots))
	return c
}

func (c *consumer) consumeTask(ctx context.Context) error {
	deaf, err := c.listenIdle()
	if err != nil {
		return err
	}
	defer deaf()
	runs, cancelRuns := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRuns()
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	var keepers, workers sync.WaitGroup
	keepers.Go(func() { c.extendDeliveries(held) })
	keepers.Go(func() { c.followDeadLetters(held) })
	keepers.Go(func() { c.followRequeued(held) })
	defer keepers.Wait()
	defer release()

	for range c.fairQueue.workers + c.fairQueue.express {
		workers.Go(func() { c.runWorker(runs) })
	}
	// Other processes can take the waiting deliveries at once.
	defer context.AfterFunc(ctx, c.stopTaking)()
	err = c.queue.feedConsumer(ctx, c.Logger, "work", c.attachConsumer, c.fetchWork)
	c.stopTaking()
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	if !closedWithin(done, stopGrace) {
		cancelRuns()
		if !closedWithin(done, stopBound) {
			err = errors.Join(err, fmt.Errorf("stop consuming: runs of %s did not end in time", strings.Join(c.runningKeys(), ", ")))
		}
	}
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
