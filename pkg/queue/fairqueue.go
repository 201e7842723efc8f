package queue

import (
	"sync"
	"time"
)

// tenant is the unit of fairness: a namespace of a cluster.
type tenant struct{ cluster, namespace string }

func (k Key) tenantKey() tenant { return tenant{k.Cluster, k.Namespace} }

// fairQueue is a queue of keys, for any number of workers, that is fair between namespaces. Each namespace has a lane.
// The next key comes from the lane with the fewest keys under way, and among equals from the lane that was served
// longest ago. Some workers, the express, are reserved for lanes with no key under way. So a namespace whose slow work
// occupies all other workers does not delay the others.
//
// Like a work queue of client-go, whose interface it implements, it holds a key once however often it is added. It does
// not hand out a key that is under way.
type fairQueue struct {
	workers, express int

	mu      sync.Mutex
	changed *sync.Cond
	lanes   map[tenant]*lane
	// waitingLanes has the lanes with waiting keys. The lane that was served longest ago comes first.
	waitingLanes []*lane
	// waiting is the number of keys in lanes. underway is the number of keys that were handed out.
	waiting, underway int
	// keys has the keys that wait or are under way.
	keys map[Key]keyState
	// resumeAt is the time at which the queue hands out keys again.
	resumeAt time.Time
	closed   bool
}

type lane struct {
	tenant   tenant
	keys     []Key
	underway int
}

type keyState int

const (
	keyWaiting keyState = iota + 1
	keyUnderway
	// keyRequeued is under way and queued again afterwards.
	keyRequeued
)

// newFairQueue returns a queue that hands out the given number of keys at once, and express more to lanes with no key
// under way.
func newFairQueue(workers, express int) *fairQueue {
	q := &fairQueue{workers: workers, express: express, lanes: map[tenant]*lane{}, keys: map[Key]keyState{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Add queues the key.
func (q *fairQueue) Add(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.keys[key] {
	case keyUnderway, keyRequeued:
		q.keys[key] = keyRequeued
	case keyWaiting:
	default:
		q.enqueueKey(key)
	}
}

// enqueueKey appends the key to its lane. q.mu is held.
func (q *fairQueue) enqueueKey(key Key) {
	if q.closed {
		return
	}
	l := q.lanes[key.tenantKey()]
	if l == nil {
		l = &lane{tenant: key.tenantKey()}
		q.lanes[l.tenant] = l
	}
	if len(l.keys) == 0 {
		q.waitingLanes = append(q.waitingLanes, l)
	}
	l.keys = append(l.keys, key)
	q.keys[key] = keyWaiting
	q.waiting++
	q.changed.Signal()
}

// Get waits for a key. The caller must call Done for it.
func (q *fairQueue) Get() (key Key, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.closed {
			return Key{}, true
		}
		if i, ok := q.nextLane(time.Now()); ok {
			return q.dequeueKey(i), false
		}
		q.changed.Wait()
	}
}

// nextLane returns the index of the next lane in waitingLanes. q.mu is held.
func (q *fairQueue) nextLane(now time.Time) (best int, ok bool) {
	if now.Before(q.resumeAt) || q.underway >= q.workers+q.express {
		return 0, false
	}
	for i, l := range q.waitingLanes {
		if !ok || l.underway < q.waitingLanes[best].underway {
			best, ok = i, true
		}
		if q.waitingLanes[best].underway == 0 {
			return best, true
		}
	}
	return best, ok && q.underway < q.workers
}

// dequeueKey hands out the first key of a lane, and moves the lane behind all others.
func (q *fairQueue) dequeueKey(i int) Key {
	l := q.waitingLanes[i]
	q.waitingLanes = append(q.waitingLanes[:i], q.waitingLanes[i+1:]...)
	key := l.keys[0]
	if l.keys = l.keys[1:]; len(l.keys) > 0 {
		q.waitingLanes = append(q.waitingLanes, l)
	}
	q.keys[key] = keyUnderway
	l.underway++
	q.waiting--
	q.underway++
	return key
}

// Done ends the work on a key from Get.
func (q *fairQueue) Done(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	state := q.keys[key]
	if state != keyUnderway && state != keyRequeued {
		return
	}
	delete(q.keys, key)
	l := q.lanes[key.tenantKey()]
	l.underway--
	q.underway--
	if state == keyRequeued {
		q.enqueueKey(key)
	}
	if l.underway == 0 && len(l.keys) == 0 {
		delete(q.lanes, l.tenant)
	}
	// A worker may be free now, or a lane may use the express.
	q.changed.Signal()
}

// pauseUntil stops the queue from handing out keys until the given time. A later call can only extend the pause.
func (q *fairQueue) pauseUntil(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !until.After(q.resumeAt) {
		return
	}
	q.resumeAt = until
	time.AfterFunc(time.Until(until), q.changed.Broadcast)
}

// pauseLeft returns the rest of the pause, 0 or less without one.
func (q *fairQueue) pauseLeft(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resumeAt.Sub(now)
}

// hasIdleWorkers reports whether the queue would hand out a key of any namespace now, and none waits.
func (q *fairQueue) hasIdleWorkers(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.waiting == 0 && q.underway < q.workers && !now.Before(q.resumeAt)
}

// Len returns the number of waiting keys.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// ShutDown stops the queue: it hands out no more keys.
func (q *fairQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// ShutDownWithDrain is ShutDown: the consumer itself waits for its keys under way.
func (q *fairQueue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *fairQueue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
