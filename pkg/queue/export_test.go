package queue

import (
	"context"
	"time"
)

// MaxSums is how many bytes of sums are taken.
const MaxSums = maxSums

// PauseFor tells when a key comes back that the API server refused, asking for such a wait.
func PauseFor(asked time.Duration) time.Duration {
	c := (&Queue{}).newConsumer(ConsumeOptions{Cluster: "c"})
	defer c.keys.ShutDown()
	return c.throttleRuns(asked)
}

// PutOff tells how long a key waits when NATS has not told so many times whose it is, and when its first run has failed then.
func PutOff(times int) (put, failed time.Duration) {
	c := (&Queue{}).newConsumer(ConsumeOptions{Cluster: "c"})
	defer c.keys.ShutDown()
	for range times {
		put = c.leaseErrorDelay(Key{})
	}
	failed, _ = c.failureBackoff(Key{})
	return put, failed
}

// FailInARow does what so many failing runs of a key do, without the waits between
// them. The function that it returns does what a run that succeeds does.
func (q *Queue) FailInARow(ctx context.Context, key Key, times int, err error) (succeed func()) {
	c := q.newConsumer(ConsumeOptions{Cluster: key.Cluster, Task: key.Task})
	c.keys.ShutDown()
	for range times {
		c.recordFailure(ctx, key, err)
	}
	return func() { c.recordSuccess(ctx, key) }
}

// Lease is one that a run holds.
type Lease struct{ held *lease }

// Acquire takes the lease of a key, as a run does.
func (q *Queue) Acquire(ctx context.Context, key Key, holder string) (Lease, error) {
	l, err := q.acquireLease(ctx, key, holder)
	return Lease{l}, err
}

// Leave leaves it to the next run of its holder, as a run does.
func (l Lease) Leave(ctx context.Context) error { return l.held.keepForHolder(ctx) }

// Retake takes it again, as that run does.
func (l Lease) Retake(ctx context.Context) error { return l.held.retakeKept(ctx) }

// Release gives it back, as a run does, and says whether somebody else had it.
func (l Lease) Release(ctx context.Context) (lost bool, err error) {
	err = l.held.release(ctx)
	return l.held.lost, err
}
