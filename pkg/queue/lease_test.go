package queue_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// renewed returns a lease of x that NATS has renewed without the knowledge of its holder, and its bucket.
func renewed(w *world, q *queue.Queue) (jetstream.KeyValue, queue.Lease) {
	w.Helper()
	leases, err := w.admin.KeyValue(w.Context(), queue.BucketLease)
	if err != nil {
		w.Fatal(err)
	}
	l, err := q.Acquire(w.Context(), named("x"), "me")
	if err != nil {
		w.Fatal(err)
	}
	if _, err := leases.Put(w.Context(), "c.shop.x", []byte("me")); err != nil {
		w.Fatal(err)
	}
	return leases, l
}

// NATS has renewed the lease, and its answer was lost. The process still holds the lease.
func TestALeaseIsKeptWhenTheAnswerToItsRenewalIsLost(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	leases, l := renewed(w, q)
	if lost, err := l.Release(t.Context()); lost || err != nil {
		t.Errorf("lost: %v, error: %v", lost, err)
	}
	if _, err := leases.Get(t.Context(), "c.shop.x"); err == nil {
		t.Error("the lease is still there")
	}
	if _, err := q.Acquire(t.Context(), named("x"), "you"); err != nil {
		t.Error(err)
	}
	if _, err := q.Acquire(t.Context(), named("x"), "me"); err == nil {
		t.Error("two have the lease")
	}
	if e, err := leases.Get(t.Context(), "c.shop.x"); err != nil || string(e.Value()) != "you" || e.Operation() != jetstream.KeyValuePut {
		t.Errorf("the lease is not the other's: %v", err)
	}
}

// If the last answer of a run is lost, the next run of its process does not wait until the lease expires.
func TestALeaseOfItsHolderIsTakenAtOnce(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	for name, end := range map[string]func(queue.Lease) error{
		"held": func(queue.Lease) error { return nil },
		"left": func(l queue.Lease) error { return l.Leave(t.Context()) },
	} {
		l, err := q.Acquire(t.Context(), named(name), "me")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Acquire(t.Context(), named(name), "you"); err == nil {
			t.Errorf("another has the lease before it is %s", name)
		}
		if err := end(l); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Acquire(t.Context(), named(name), "me"); err != nil {
			t.Errorf("its holder does not get the lease that is %s: %v", name, err)
		}
	}
}
