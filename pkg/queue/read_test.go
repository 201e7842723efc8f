package queue_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// tell publishes the event of a transition with this sequence number.
func (w *world) tell(q *queue.Queue, k queue.Key, seq int64) {
	w.Helper()
	w.until("an event is published", func(ctx context.Context) error { return q.PublishEvent(ctx, aTransition(w.T, k, seq)) })
}

func aTransition(t *testing.T, k queue.Key, seq int64) event.Event {
	t.Helper()
	e, err := event.NewChange(
		event.Rollout{Cluster: k.Cluster, Namespace: k.Namespace, Name: k.Name, UID: "u-" + k.Name},
		event.Change{Noun: "step", Verb: "paused", Seq: seq, At: time.Unix(seq, 0)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ids returns the ids of all events.
func ids(t *testing.T, events iter.Seq2[event.Event, error]) (list []string) {
	t.Helper()
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.ID())
	}
	return list
}

func TestReadingEndsAtTheLastEventThatWasStored(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	a, b := named("checkout"), queue.Key{Cluster: "eu.1", Namespace: "bank", Name: "pay.v2"}
	for seq := range int64(3) {
		w.tell(q, a, seq+1)
		w.tell(q, b, seq+1)
	}
	for name, c := range map[string]struct {
		options queue.ReadOptions
		want    []string
	}{
		"everything":          {queue.ReadOptions{}, []string{"u-checkout/1", "u-pay.v2/1", "u-checkout/2", "u-pay.v2/2", "u-checkout/3", "u-pay.v2/3"}},
		"of one cluster":      {queue.ReadOptions{Cluster: "c"}, []string{"u-checkout/1", "u-checkout/2", "u-checkout/3"}},
		"of one namespace":    {queue.ReadOptions{Namespace: "bank"}, []string{"u-pay.v2/1", "u-pay.v2/2", "u-pay.v2/3"}},
		"of one Rollout":      {queue.ReadOptions{Cluster: "eu.1", Namespace: "bank", Name: "pay.v2"}, []string{"u-pay.v2/1", "u-pay.v2/2", "u-pay.v2/3"}},
		"of a name anywhere":  {queue.ReadOptions{Name: "checkout"}, []string{"u-checkout/1", "u-checkout/2", "u-checkout/3"}},
		"of nobody":           {queue.ReadOptions{Name: "nobody"}, nil},
		"since later than it": {queue.ReadOptions{Since: time.Now().Add(time.Hour)}, nil},
	} {
		if diff := cmp.Diff(c.want, ids(t, q.ReadEvents(t.Context(), c.options))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadingLeavesWhatComesMeanwhile(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	const stored = 600 // more than one batch of a reader
	for seq := range int64(stored) {
		w.tell(q, named("x"), seq+1)
	}
	count := 0
	for _, err := range q.ReadEvents(t.Context(), queue.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count == 1 {
			w.tell(q, named("x"), stored+1)
		}
	}
	if count != stored {
		t.Errorf("%d were read, want the %d that were stored when reading began", count, stored)
	}
}

func TestReadingSinceATime(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.tell(q, named("x"), 1)
	w.tell(q, named("x"), 2)
	s, err := w.admin.Stream(t.Context(), queue.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"u-x/2"}, ids(t, q.ReadEvents(t.Context(), queue.ReadOptions{Since: m.Time}))); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoEventIsPassedOver(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.tell(q, named("x"), 1)
	if _, err := w.admin.Publish(t.Context(), named("x").EventSubject(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	w.tell(q, named("x"), 2)
	if diff := cmp.Diff([]string{"u-x/1", "u-x/2"}, ids(t, q.ReadEvents(t.Context(), queue.ReadOptions{}))); diff != "" {
		t.Error(diff)
	}
}

// follow reads events in the background.
func (w *world) follow(q *queue.Queue, o queue.ReadOptions) (got <-chan string) {
	ctx, cancel := context.WithCancel(w.Context())
	ch, done := make(chan string, 100), make(chan struct{})
	o.Follow = true
	go func() {
		defer close(done)
		for e, err := range q.ReadEvents(ctx, o) {
			if err != nil {
				ch <- err.Error()
				return
			}
			ch <- e.ID()
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
	return ch
}

func TestFollowingGoesOnWhenNATSComesBack(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.tell(q, named("x"), 1)
	got := w.follow(q, queue.ReadOptions{Name: "x"})
	want := func(id string) {
		t.Helper()
		if diff := cmp.Diff(id, receive(w, id, got)); diff != "" {
			t.Fatal(diff)
		}
	}
	want("u-x/1")
	w.tell(q, named("x"), 2)
	want("u-x/2")
	w.server.Close()
	w.start()
	w.tell(q, named("x"), 3)
	want("u-x/3")
	if err := w.admin.DeleteStream(t.Context(), queue.StreamEvents); err != nil {
		t.Fatal(err)
	}
	for seq := range int64(3) { // fewer than the old stream had
		w.tell(q, named("x"), seq+4)
		want(fmt.Sprintf("u-x/%d", seq+4))
	}
	w.noReaders(1)
}

func TestAReaderIsGoneFromNATSWhenItsContextIs(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.tell(q, named("x"), 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []string
	for _, err := range q.ReadEvents(ctx, queue.ReadOptions{Follow: true}) {
		if err != nil {
			errs = append(errs, err.Error())
		}
		cancel()
	}
	if len(errs) > 0 {
		t.Errorf("the end of the context is an error: %v", errs)
	}
	w.noReaders(0)
	for range q.ReadEvents(t.Context(), queue.ReadOptions{Follow: true}) {
		break
	}
	w.noReaders(0)
}

// noReaders waits until at most n consumers remain on the stream of events.
func (w *world) noReaders(n int) {
	w.Helper()
	w.until("readers are gone", func(ctx context.Context) error {
		s, err := w.admin.Stream(ctx, queue.StreamEvents)
		if err == nil && s.CachedInfo().State.Consumers > n {
			err = fmt.Errorf("%d are left", s.CachedInfo().State.Consumers)
		}
		return err
	})
}

func TestReadingWhereNoStreamIsSaysSo(t *testing.T) {
	w := aWorld(t)
	w.connect()
	if err := w.admin.DeleteStream(t.Context(), queue.StreamEvents); err != nil {
		t.Fatal(err)
	}
	guest, err := queue.ConnectExisting(t.Context(), queue.Options{URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	for _, follow := range []bool{false, true} {
		var got []string
		for _, err := range guest.ReadEvents(t.Context(), queue.ReadOptions{Follow: follow}) {
			got = append(got, err.Error())
		}
		if len(got) != 1 || !strings.Contains(got[0], "the streams of Sluice are not on this NATS") {
			t.Errorf("following %v: %q", follow, got)
		}
	}
	if _, err := w.admin.Stream(t.Context(), queue.StreamEvents); err == nil {
		t.Error("reading has made the stream")
	}
}

func TestReadingRefusesWhatIsNoName(t *testing.T) {
	w := aWorld(t)
	for _, o := range []queue.ReadOptions{{Name: ">"}, {Namespace: "*"}, {Cluster: "A"}} {
		for _, err := range w.connect().ReadEvents(t.Context(), o) {
			if err == nil {
				t.Errorf("%+v is read", o)
			}
		}
	}
}
