package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

// Subjects of answers of two clusters.
const (
	eu1Checkout = "sluice.fleet.up.eu1.shop.checkout"
	eu1Pay      = "sluice.fleet.up.eu1.shop.pay"
	eu2Checkout = "sluice.fleet.up.eu2.shop.checkout"
)

// hubQueue connects to the server as an executor of the hub.
func (w *world) hubQueue() *queue.Queue {
	w.Helper()
	q := w.connect()
	if err := q.CreateHubStreams(w.Context()); err != nil {
		w.Fatal(err)
	}
	return q
}

// fleetStates are states of a stream with the subjects that have changed, in their order.
type fleetStates struct {
	*queue.FleetStates
	changes chan string
}

func newFleetStates(q *queue.Queue, stream string) fleetStates {
	changes := make(chan string, 100)
	return fleetStates{q.NewFleetStates(stream, func(subject string) { changes <- subject }), changes}
}

// followStates runs the states until the end of the test. It returns a function that stops them before.
func (w *world) followStates(s fleetStates) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			w.Errorf("the states end with: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	w.Cleanup(stop)
	return stop
}

// changed waits until these subjects have changed, in any order, and no other one.
func (s fleetStates) changed(w *world, subjects ...string) {
	w.Helper()
	var got []string
	for range subjects {
		got = append(got, receive(w, "a change of the states", s.changes))
	}
	slices.Sort(got)
	if diff := cmp.Diff(subjects, got); diff != "" {
		w.Fatalf("the subjects that changed (-want +got):\n%s", diff)
	}
}

// wantState checks the last message of a subject, "" for none.
func (s fleetStates) wantState(w *world, subject, want string) {
	w.Helper()
	if got := s.Get(subject); string(got.Data) != want || (got.Seq == 0) != (want == "") {
		w.Errorf("the state of %s is %q with the sequence %d, want %q", subject, got.Data, got.Seq, want)
	}
}

// synced waits until the states are read.
func (s fleetStates) synced(w *world) {
	w.Helper()
	w.until("the states are read", func(context.Context) error {
		if !s.IsSynced() {
			return errors.New("they are not")
		}
		return nil
	})
}

// publish publishes a message past all states, and returns its sequence.
func (w *world) publish(subject, text string) uint64 {
	w.Helper()
	ack, err := w.admin.Publish(w.Context(), subject, []byte(text))
	if err != nil {
		w.Fatal(err)
	}
	return ack.Sequence
}

func (w *world) deleteStream(name string) {
	w.Helper()
	if err := w.admin.DeleteStream(w.Context(), name); err != nil {
		w.Fatal(err)
	}
}

func TestFleetStatesAreTheLastMessages(t *testing.T) {
	w := aWorld(t)
	s := newFleetStates(w.hubQueue(), queue.StreamFleetUp)
	w.publish(eu1Checkout, "first")
	w.publish(eu2Checkout, "of eu2")
	w.publish(eu1Checkout, "second")
	if s.IsSynced() {
		t.Error("the states are read before they run")
	}
	w.followStates(s)
	s.changed(w, eu1Checkout, eu2Checkout)
	if !s.IsSynced() {
		t.Error("the states are not read after the first messages")
	}
	s.wantState(w, eu1Checkout, "second")
	s.wantState(w, eu2Checkout, "of eu2")
	s.wantState(w, eu1Pay, "")

	third := w.publish(eu1Checkout, "third")
	s.changed(w, eu1Checkout)
	s.wantState(w, eu1Checkout, "third")
	if got := s.Get(eu1Checkout).Seq; got != third {
		t.Errorf("its sequence is %d, want %d", got, third)
	}
	w.publish(eu1Pay, "later")
	s.changed(w, eu1Pay)
	got := s.Subjects()
	slices.Sort(got)
	if diff := cmp.Diff([]string{eu1Checkout, eu1Pay, eu2Checkout}, got); diff != "" {
		t.Errorf("the subjects (-want +got):\n%s", diff)
	}
}

func TestStatesOfAnEmptyStreamAreRead(t *testing.T) {
	w := aWorld(t)
	s := newFleetStates(w.hubQueue(), queue.StreamFleetDown)
	if s.IsSynced() {
		t.Error("the states are read before they run")
	}
	w.followStates(s)
	s.synced(w)
	if got := s.Subjects(); len(got) != 0 {
		t.Errorf("an empty stream has states of %q", got)
	}
	w.publish("sluice.fleet.down.eu1.shop.checkout", "the first order")
	s.changed(w, "sluice.fleet.down.eu1.shop.checkout")
	s.wantState(w, "sluice.fleet.down.eu1.shop.checkout", "the first order")
}

func TestAPublishedStateTakesThePlaceOfTheKnownOne(t *testing.T) {
	w := aWorld(t)
	mine, other := newFleetStates(w.hubQueue(), queue.StreamFleetUp), newFleetStates(w.hubQueue(), queue.StreamFleetUp)
	put := func(s fleetStates, text string, last uint64) error {
		return s.Publish(t.Context(), eu1Checkout, []byte(text), last)
	}
	if err := put(mine, "first", 0); err != nil {
		t.Fatal(err)
	}
	mine.changed(w, eu1Checkout)
	mine.wantState(w, eu1Checkout, "first") // nothing reads the stream: it is known by the answer of NATS
	first := mine.Get(eu1Checkout).Seq
	for name, last := range map[string]uint64{"no message": 0, "a later message": first + 1} {
		if err := put(other, "of another process", last); !errors.Is(err, queue.ErrFleetStale) {
			t.Errorf("in the place of %s: %v, want ErrFleetStale", name, err)
		}
	}
	other.wantState(w, eu1Checkout, "")
	if err := put(other, "second", first); err != nil {
		t.Fatal(err)
	}
	if err := put(mine, "third", first); !errors.Is(err, queue.ErrFleetStale) {
		t.Errorf("in the place of a message that was replaced: %v, want ErrFleetStale", err)
	}
	mine.wantState(w, eu1Checkout, "first")
	w.followStates(mine)
	mine.changed(w, eu1Checkout)
	mine.wantState(w, eu1Checkout, "second")
	if err := put(mine, "third", mine.Get(eu1Checkout).Seq); err != nil {
		t.Error(err)
	}
}

func TestStatesOfAStreamThatWasDeletedAreGone(t *testing.T) {
	w := aWorld(t)
	s := newFleetStates(w.hubQueue(), queue.StreamFleetUp)
	w.publish(eu1Checkout, "before")
	w.publish(eu2Checkout, "before")
	w.followStates(s)
	s.changed(w, eu1Checkout, eu2Checkout)
	w.deleteStream(queue.StreamFleetUp)
	s.changed(w, eu1Checkout, eu2Checkout)
	s.wantState(w, eu1Checkout, "")
	s.wantState(w, eu2Checkout, "")
	if !s.IsSynced() {
		t.Error("the states are not read any more")
	}
	if err := s.Publish(t.Context(), eu1Checkout, []byte("after"), 0); err != nil {
		t.Fatal(err)
	}
	s.changed(w, eu1Checkout)
	w.publish(eu2Checkout, "after")
	s.changed(w, eu2Checkout)
	s.wantState(w, eu1Checkout, "after")
	s.wantState(w, eu2Checkout, "after")
}

// The sequences of a stream that was made again begin with 1.
func TestStatesOfAStreamThatWasMadeAgainAreNewEvenWithTheSameSequence(t *testing.T) {
	w := aWorld(t)
	q := w.hubQueue()
	s := newFleetStates(q, queue.StreamFleetUp)
	before := w.publish(eu1Checkout, "before")
	w.publish(eu2Checkout, "before")
	stop := w.followStates(s)
	s.changed(w, eu1Checkout, eu2Checkout)
	stop()
	w.deleteStream(queue.StreamFleetUp)
	if err := q.CreateHubStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := w.publish(eu1Checkout, "after"); after != before {
		t.Fatalf("the sequences are %d and %d: this test needs the same one", before, after)
	}
	w.followStates(s)
	s.changed(w, eu1Checkout, eu2Checkout)
	s.wantState(w, eu1Checkout, "after")
	s.wantState(w, eu2Checkout, "")
}

func TestFleetStatesSurviveARestartOfTheServer(t *testing.T) {
	w := aWorld(t)
	q := w.hubQueue()
	s := newFleetStates(q, queue.StreamFleetUp)
	w.publish(eu1Checkout, "before")
	w.followStates(s)
	s.changed(w, eu1Checkout)
	w.server.Close()
	w.until("the queue notices", func(context.Context) error {
		if q.IsConnected() {
			return errors.New("it is connected")
		}
		return nil
	})
	s.wantState(w, eu1Checkout, "before")
	if !s.IsSynced() {
		t.Error("an outage makes the hub forget its states")
	}
	w.start()
	w.until("the server takes messages", func(ctx context.Context) error {
		_, err := w.admin.Publish(ctx, eu1Pay, []byte("after"))
		return err
	})
	s.changed(w, eu1Pay)
	s.wantState(w, eu1Checkout, "before")
	s.wantState(w, eu1Pay, "after")
}

func TestHeartbeatsArriveUntilTheirEnd(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	beats := make(chan string, 10)
	stop, err := q.SubscribeBeats("sluice.fleet.beat.*", func(subject string, data []byte) { beats <- subject + " " + string(data) })
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		w.until("the server has taken a heartbeat", func(ctx context.Context) error {
			if err := w.admin.Conn().Publish("sluice.fleet.beat.eu1", []byte(text)); err != nil {
				return err
			}
			return w.admin.Conn().FlushWithContext(ctx)
		})
	}
	if _, err := q.WorkStreamCreated(t.Context()); err != nil { // NATS has answered, so it knows the subscription
		t.Fatal(err)
	}
	send("one")
	if got := receive(w, "a heartbeat", beats); got != "sluice.fleet.beat.eu1 one" {
		t.Errorf("the heartbeat is %q", got)
	}
	stop()
	if _, err := q.WorkStreamCreated(t.Context()); err != nil {
		t.Fatal(err)
	}
	send("two")
	if _, err := q.WorkStreamCreated(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(beats) > 0 {
		t.Errorf("after the end comes %q", <-beats)
	}
}
