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

// Result is what a run says about its key.
type Result struct {
	// WakeAt asks for another run at that time; zero means only a hint brings one.
	WakeAt time.Time
	// Err asks for another run after a backoff. WakeAt is then ignored.
	Err error
	// RetryAfter says that the API server asked to be left alone for so long: this
	// process begins no run before that is over, half a minute at most. Together
	// with Err the key comes back then, and that is not counted as its failure.
	RetryAfter time.Duration
	// KeepLease has others leave the key alone for a second more. It is for a run
	// that was busy, in a process that comes to know of changes to the key by
	// itself: see [ConsumeOptions].
	KeepLease bool
}

// Handler looks at one key. Its context ends after two minutes, and some seconds
// after the process is asked to stop. A panic counts as an error.
type Handler func(ctx context.Context, key Key) Result

// ConsumeOptions select the work to take, and say how to do it.
type ConsumeOptions struct {
	// Cluster whose rollouts are worked on; "*" takes all clusters' (then no
	// process may consume a single cluster on the same NATS).
	Cluster string
	// Task is the kind of work: TaskRelease, which is also the zero value and includes TaskRouting, or TaskAnalysis.
	Task string
	// Workers is the number of keys worked on at once; at least 1. A quarter more are reserved for namespaces without a key under way.
	Workers int
	Handler Handler
	// Requeue are keys that this process itself has found to be worth a run. It may
	// be nil, and is not to be closed.
	Requeue <-chan Key
	// OnDeadLetter, if set, is told of each dead letter that this process has written.
	// It must return soon.
	OnDeadLetter func(DeadLetter)
	Logger       *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

const (
	ackWait = 6 * time.Second
	// maxDeliver counts deliveries that a process died on: what waits, for a lease
	// or after an error, is held. Work that moves between processes counts too,
	// but not for long.
	maxDeliver    = 20
	maxAckPending = 10_000

	// depth is how many deliveries a process buffers. It must see far into the stream to be fair: a delivery that is not buffered waits for all earlier
	// ones.
	depth = 1000

	// pullExpires is how long NATS goes on sending to a process that has stopped
	// reading; twice pullBeat of silence is how one notices that NATS is gone.
	pullExpires = 4 * time.Second
	pullBeat    = 2 * time.Second

	// fetchWait is how long a single batch waits for messages.
	fetchWait   = time.Second
	attachFirst = 100 * time.Millisecond
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
	queue     *Queue
	holder    string
	fairQueue *fairQueue
	// keys is lanes, with delays.
	keys workqueue.TypedDelayingInterface[Key]
	// freeSlots bounds the deliveries held here.
	freeSlots chan struct{}

	mu      sync.Mutex
	entries map[Key]*entry
	// deadLetterKeys are the keys that have a dead letter, as far as is known here: of its
	// own ones only, until deadLettersRead.
	deadLetterKeys  map[Key]bool
	deadLettersRead bool
	// keptLeases are the leases that runs have left to the next ones.
	keptLeases map[Key]keptLease
	// drainPull ends the pull under way.
	drainPull func()
	// shedAt is when work was given to others last.
	shedAt   time.Time
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
	// Others can go on with what waits here from the first moment.
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
