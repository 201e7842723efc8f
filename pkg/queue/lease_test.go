package queue_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// NATS has renewed the lease, and its answer never came: the lease is still ours.
func TestALeaseIsKeptWhenTheAnswerToItsRenewalIsLost(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	leases, err := w.admin.KeyValue(t.Context(), queue.BucketLease)
	if err != nil {
		t.Fatal(err)
	}
	l, err := q.Acquire(t.Context(), named("x"), "me")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Put(t.Context(), "c.shop.x", []byte("me")); err != nil { // as by a renewal
		t.Fatal(err)
	}
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
