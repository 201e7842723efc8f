package queue

import (
	"context"
	"time"
)

// MaxSums is the maximum size of sums in bytes.
const MaxSums = maxSums

// PauseFor returns the delay of a key that the API server refused and asked to wait.
func PauseFor(asked time.Duration) time.Duration {
	c := (&Queue{}).newConsumer(ConsumeOptions{Cluster: "c"})
	defer c.keys.ShutDown()
	return c.throttleRuns(asked)
}

// PutOff returns how long a key waits after that many requests to NATS about its lease without an answer. It also
// returns the delay after the first failure of its run.
func PutOff(times int) (put, failed time.Duration) {
	c := (&Queue{}).newConsumer(ConsumeOptions{Cluster: "c"})
	defer c.keys.ShutDown()
	for range times {
		put = c.leaseErrorDelay(Key{})
	}
	failed, _ = c.failureBackoff(Key{})
	return put, failed
}

// FailInARow acts like that many failing runs of a key, without the waits between them. The function that it returns
// acts like a successful run.
func (q *Queue) FailInARow(ctx context.Context, key Key, times int, err error) (succeed func()) {
	c := q.newConsumer(ConsumeOptions{Cluster: key.Cluster, Task: key.Task})
	c.keys.ShutDown()
	for range times {
		c.recordFailure(ctx, key, err)
	}
	return func() { c.recordSuccess(ctx, key) }
}

// Lease is a lease that a run holds.
type Lease struct{ held *lease }

// Acquire takes the lease of a key, as a run does.
func (q *Queue) Acquire(ctx context.Context, key Key, holder string) (Lease, error) {
	l, err := q.acquireLease(ctx, key, holder)
	return Lease{l}, err
}

// Leave leaves the lease to the next run of its holder, as a run does.
func (l Lease) Leave(ctx context.Context) error { return l.held.keepForHolder(ctx) }

// Retake takes the lease again, as that run does.
func (l Lease) Retake(ctx context.Context) error { return l.held.retakeKept(ctx) }

// Release releases the lease, as a run does, and reports whether another run had it.
func (l Lease) Release(ctx context.Context) (lost bool, err error) {
	err = l.held.release(ctx)
	return l.held.lost, err
}
