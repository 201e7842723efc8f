package queue

import (
	"sync"
	"time"
)

// tenant is whom work is shared out between: a namespace of a cluster.
type tenant struct{ cluster, namespace string }

func (k Key) tenantKey() tenant { return tenant{k.Cluster, k.Namespace} }

// fairQueue is a queue of keys, for any number of workers, that is fair between
// namespaces: each has a lane, and of the lanes with keys waiting the one with
// the fewest keys under way goes next, among equals the one served longest ago.
// Some workers, the express, are kept for lanes with nothing under way, so that
// a namespace that keeps all others busy with slow work is not waited for.
//
// Like a work queue of client-go, whose interface it has, it holds a key once
// however often it is added, and hands none out that is under way.
type fairQueue struct {
	workers, express int

	mu      sync.Mutex
	changed *sync.Cond
	lanes   map[tenant]*lane
	// waitingLanes has the lanes with keys waiting, the one served longest ago first.
	waitingLanes []*lane
	// waiting is the number of keys in lanes, underway the number of keys handed out.
	waiting, underway int
	// keys has those that wait or are under way.
	keys map[Key]keyState
	// resumeAt is when keys are handed out again.
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
	// keyRequeued is under way and to be looked at once more afterwards.
	keyRequeued
)

// newFairQueue hands out the given number of keys at once, and express more to lanes
// with nothing under way.
func newFairQueue(workers, express int) *fairQueue {
	q := &fairQueue{workers: workers, express: express, lanes: map[tenant]*lane{}, keys: map[Key]keyState{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Add has the key handed out once more.
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

// nextLane is the place in turn of the lane that goes next. q.mu is held.
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

// dequeueKey hands out the first key of a lane, whose next turn is after all others'.
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

// Done ends what Get began.
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

// pauseUntil hands out nothing before the given time. It can only be put off.
func (q *fairQueue) pauseUntil(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !until.After(q.resumeAt) {
		return
	}
	q.resumeAt = until
	time.AfterFunc(time.Until(until), q.changed.Broadcast)
}

// pauseLeft is how long nothing is handed out from now on, 0 or less if not.
func (q *fairQueue) pauseLeft(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resumeAt.Sub(now)
}

// hasIdleWorkers says that a key of any namespace would be handed out now, and none waits.
func (q *fairQueue) hasIdleWorkers(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.waiting == 0 && q.underway < q.workers && !now.Before(q.resumeAt)
}

// Len is the number of keys that wait.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// ShutDown hands out nothing more.
func (q *fairQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// ShutDownWithDrain is ShutDown: the caller itself waits for its keys under way.
func (q *fairQueue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *fairQueue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
