package queue

import (
	"sync"
	"time"
)

// tenant is whom work is shared out between: a namespace of a cluster.
type tenant struct{ cluster, namespace string }

func (k Key) tenant() tenant { return tenant{k.Cluster, k.Namespace} }

// lanes is a queue of keys, for any number of workers, that is fair between
// namespaces: each has a lane, and of the lanes with keys waiting the one with
// the fewest keys under way goes next, among equals the one served longest ago.
// Some workers, the express, are kept for lanes with nothing under way, so that
// a namespace that keeps all others busy with slow work is not waited for.
//
// Like a work queue of client-go, whose interface it has, it holds a key once
// however often it is added, and hands none out that is under way.
type lanes struct {
	workers, express int

	mu     sync.Mutex
	change *sync.Cond
	lanes  map[tenant]*lane
	// turn has the lanes with keys waiting, the one served longest ago first.
	turn []*lane
	// waiting is the number of keys in lanes, underway that of keys handed out.
	waiting, underway int
	// keys has those that wait or are under way.
	keys map[Key]keyState
	// resume is when keys are handed out again.
	resume time.Time
	closed bool
}

type lane struct {
	tenant   tenant
	keys     []Key
	underway int
}

type keyState int

const (
	waiting keyState = iota + 1
	underway
	// again is under way and to be looked at once more afterwards.
	again
)

// newLanes hands out the given number of keys at once, and express more to lanes
// with nothing under way.
func newLanes(workers, express int) *lanes {
	q := &lanes{workers: workers, express: express, lanes: map[tenant]*lane{}, keys: map[Key]keyState{}}
	q.change = sync.NewCond(&q.mu)
	return q
}

// Add has the key handed out once more.
func (q *lanes) Add(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.keys[key] {
	case underway, again:
		q.keys[key] = again
	case waiting:
	default:
		q.queue(key)
	}
}

// queue appends the key to its lane. q.mu is held.
func (q *lanes) queue(key Key) {
	if q.closed {
		return
	}
	l := q.lanes[key.tenant()]
	if l == nil {
		l = &lane{tenant: key.tenant()}
		q.lanes[l.tenant] = l
	}
	if len(l.keys) == 0 {
		q.turn = append(q.turn, l)
	}
	l.keys = append(l.keys, key)
	q.keys[key] = waiting
	q.waiting++
	q.change.Signal()
}

// Get waits for a key. Whoever got one calls Done.
func (q *lanes) Get() (key Key, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.closed {
			return Key{}, true
		}
		if i, ok := q.next(time.Now()); ok {
			return q.take(i), false
		}
		q.change.Wait()
	}
}

// next is the place in turn of the lane that goes next. q.mu is held.
func (q *lanes) next(now time.Time) (best int, ok bool) {
	if now.Before(q.resume) || q.underway >= q.workers+q.express {
		return 0, false
	}
	for i, l := range q.turn {
		if !ok || l.underway < q.turn[best].underway {
			best, ok = i, true
		}
		if q.turn[best].underway == 0 {
			return best, true
		}
	}
	return best, ok && q.underway < q.workers
}

// take hands out the first key of a lane, whose next turn is after all others'.
func (q *lanes) take(i int) Key {
	l := q.turn[i]
	q.turn = append(q.turn[:i], q.turn[i+1:]...)
	key := l.keys[0]
	if l.keys = l.keys[1:]; len(l.keys) > 0 {
		q.turn = append(q.turn, l)
	}
	q.keys[key] = underway
	l.underway++
	q.waiting--
	q.underway++
	return key
}

// Done ends what Get began.
func (q *lanes) Done(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	state := q.keys[key]
	if state != underway && state != again {
		return
	}
	delete(q.keys, key)
	l := q.lanes[key.tenant()]
	l.underway--
	q.underway--
	if state == again {
		q.queue(key)
	}
	if l.underway == 0 && len(l.keys) == 0 {
		delete(q.lanes, l.tenant)
	}
	// A worker may be free now, or a lane may use the express.
	q.change.Signal()
}

// pause hands out nothing before the given time. It can only be put off.
func (q *lanes) pause(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !until.After(q.resume) {
		return
	}
	q.resume = until
	time.AfterFunc(time.Until(until), q.change.Broadcast)
}

// paused is how long nothing is handed out from now on, 0 or less if not.
func (q *lanes) paused(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resume.Sub(now)
}

// idle says that a key of any namespace would be handed out now, and none waits.
func (q *lanes) idle(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.waiting == 0 && q.underway < q.workers && !now.Before(q.resume)
}

// Len is the number of keys that wait.
func (q *lanes) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// ShutDown hands out nothing more.
func (q *lanes) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.change.Broadcast()
}

// ShutDownWithDrain is ShutDown: whoever has keys under way waits for them itself.
func (q *lanes) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *lanes) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
