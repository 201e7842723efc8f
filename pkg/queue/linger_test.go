package queue_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

func TestABusyRunLeavesItsLeaseToTheNextOneHere(t *testing.T) {
	w := aWorld(t)
	runs, again := 0, make(chan queue.Key)
	ran := make(chan struct{}, 2)
	w.consumeWith(w.connect(), queue.ConsumeOptions{Cluster: "c", Workers: 1, Again: again, Handler: func(context.Context, queue.Key) queue.Result {
		ran <- struct{}{}
		runs++
		return queue.Result{Linger: runs == 1}
	}})
	heard := listen(w)
	w.hint(w.connect(), named("x"))
	receive(w, "run for the hint", ran)
	heard.until(w, "+ACK")
	again <- named("x")
	receive(w, "run that the process asked for itself", ran)
	if diff := cmp.Diff([]string{"lease", "leave", "+ACK", "lease", "release"}, heard.until(w, "release")); diff != "" {
		t.Errorf("what goes over NATS (-want +got):\n%s", diff)
	}
}

func TestALeaseThatIsLeftIsForItsHolderAndThenForAnybody(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	l, err := q.Acquire(t.Context(), named("x"), "me")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Retake(t.Context()); err != nil {
			t.Fatalf("its holder does not get it again: %v", err)
		}
		if _, err := q.Acquire(t.Context(), named("x"), "you"); err == nil {
			t.Fatal("two have the lease")
		}
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("another has it", func(ctx context.Context) error {
		_, err := q.Acquire(ctx, named("x"), "you")
		return err
	})
	if l.Retake(t.Context()) == nil {
		t.Error("its holder of before has it as well")
	}
}

func TestALeaseIsLeftWhenTheAnswerToItsRenewalIsLost(t *testing.T) {
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
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Retake(t.Context()); err != nil {
		t.Errorf("its holder does not get it again: %v", err)
	}
}
