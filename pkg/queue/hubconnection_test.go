package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/ports"
)

const (
	orderForEU1 = "sluice.fleet.down.eu1.shop.checkout"
	orderForEU2 = "sluice.fleet.down.eu2.shop.checkout"
)

var passwords = map[string]string{"eu1": "secret of eu1", "eu2": "secret of eu2"}

// aHub is a world whose server has the accounts of two clusters. The server does not run yet.
func aHub(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{T: t, opts: embedded.Options{Dir: natsdir.ForTest(t), Port: ports.Free(t), User: user, Password: password, Members: passwords}}
}

// startHub starts the server, with the streams of the hub and their states.
func (w *world) startHub() (orders, answers fleetStates) {
	w.Helper()
	w.start()
	nc, err := nats.Connect(w.server.URL(), nats.UserInfo(user, password), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	if w.admin, err = jetstream.New(nc); err != nil {
		w.Fatal(err)
	}
	q := w.hubQueue()
	orders, answers = newFleetStates(q, queue.StreamFleetDown), newFleetStates(q, queue.StreamFleetUp)
	for _, s := range []fleetStates{orders, answers} {
		w.followStates(s)
		s.synced(w)
	}
	return orders, answers
}

// hubConnection is the connection of a cluster, with its connects.
type hubConnection struct {
	*queue.HubConnection
	*world
	connects chan struct{}
}

// join connects as a cluster.
func (w *world) join(member string) hubConnection {
	w.Helper()
	connects := make(chan struct{}, 10)
	h, err := queue.ConnectHub(queue.Options{
		URL: fmt.Sprintf("nats://127.0.0.1:%d", w.opts.Port), User: member, Password: passwords[member], Name: w.Name(), Logger: slog.New(slog.NewTextHandler(w.Output(), nil)),
	}, member, func() { connects <- struct{}{} })
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(h.Close)
	return hubConnection{h, w, connects}
}

// connected waits for the next connect.
func (h hubConnection) connected() {
	h.Helper()
	receive(h.world, "a connect", h.connects)
	if !h.IsConnected() {
		h.Error("after a connect it says that it is not connected")
	}
}

// last returns the last message of a subject.
func (h hubConnection) last(stream, subject string) queue.FleetState {
	h.Helper()
	state, err := h.LastState(h.Context(), stream, subject)
	if err != nil {
		h.Fatal(err)
	}
	return state
}

func (h hubConnection) answer(text string, last uint64) uint64 {
	h.Helper()
	seq, err := h.PublishState(h.Context(), eu1Checkout, []byte(text), last)
	if err != nil {
		h.Fatal(err)
	}
	return seq
}

func TestAClusterConnectsWhenItsHubIsUp(t *testing.T) {
	w := aHub(t)
	h := w.join("eu1")
	if h.IsConnected() {
		t.Error("it is connected without a server")
	}
	if _, err := h.PublishState(t.Context(), eu1Checkout, []byte("lost"), 0); err == nil {
		t.Error("an answer is published without a server")
	}
	if _, err := h.LastState(t.Context(), queue.StreamFleetUp, eu1Checkout); err == nil {
		t.Error("a subject is read without a server")
	}
	if err := h.SendBeat("sluice.fleet.beat.eu1", nil); err == nil {
		t.Error("a heartbeat is sent without a server")
	}
	_, answers := w.startHub()
	h.connected()
	h.answer("first", 0) // what was sent without a server does not arrive later
	answers.changed(w, eu1Checkout)
	answers.wantState(w, eu1Checkout, "first")
	if len(h.connects) > 0 {
		t.Error("one connect is told twice")
	}
}

func TestWhatAClusterReadsAndPublishes(t *testing.T) {
	w := aHub(t)
	orders, answers := w.startHub()
	h := w.join("eu1")
	h.connected()
	for stream, subject := range map[string]string{queue.StreamFleetDown: orderForEU1, queue.StreamFleetUp: eu1Checkout} {
		if got := h.last(stream, subject); got.Seq != 0 || got.Data != nil {
			t.Errorf("%s without a message has the sequence %d and %q", subject, got.Seq, got.Data)
		}
	}
	if err := orders.Publish(t.Context(), orderForEU1, []byte("begin"), 0); err != nil {
		t.Fatal(err)
	}
	if got, want := h.last(queue.StreamFleetDown, orderForEU1), orders.Get(orderForEU1); string(got.Data) != "begin" || got.Seq != want.Seq {
		t.Errorf("the last order is %q with the sequence %d, want %q with %d", got.Data, got.Seq, want.Data, want.Seq)
	}

	first := h.answer("first", 0)
	answers.changed(w, eu1Checkout)
	for name, last := range map[string]uint64{"no message": 0, "a later message": first + 1} {
		if _, err := h.PublishState(t.Context(), eu1Checkout, []byte("stale"), last); !errors.Is(err, queue.ErrFleetStale) {
			t.Errorf("in the place of %s: %v, want ErrFleetStale", name, err)
		}
	}
	second := h.answer("second", first)
	if got := h.last(queue.StreamFleetUp, eu1Checkout); string(got.Data) != "second" || got.Seq != second {
		t.Errorf("the last answer is %q with the sequence %d, want %q with %d", got.Data, got.Seq, "second", second)
	}
	answers.changed(w, eu1Checkout)
	answers.wantState(w, eu1Checkout, "second")
}

// The stream takes 32 KiB and its headers, and the account takes 64 KiB.
func TestAClusterGetsAnErrorForAMessageThatIsTooLarge(t *testing.T) {
	w := aHub(t)
	_, answers := w.startHub()
	h := w.join("eu1")
	h.connected()
	largest := strings.Repeat("x", 32<<10)
	seq := h.answer(largest, 0)
	for _, size := range []int{34 << 10, 60 << 10} {
		if _, err := h.PublishState(t.Context(), eu1Checkout, []byte(strings.Repeat("y", size)), seq); err == nil || !strings.Contains(err.Error(), "maximum") {
			t.Errorf("an answer of %d KiB: %v", size>>10, err)
		}
	}
	answers.changed(w, eu1Checkout)
	answers.wantState(w, eu1Checkout, largest)
	h.answer("small", seq)
}

func TestWithoutItsStreamAClusterGetsAnError(t *testing.T) {
	w := aHub(t)
	w.start()
	h := w.join("eu1")
	h.connected()
	if state, err := h.LastState(t.Context(), queue.StreamFleetDown, orderForEU1); err == nil {
		t.Errorf("without a stream the last order is %+v", state)
	}
	if seq, err := h.PublishState(t.Context(), eu1Checkout, []byte("lost"), 0); err == nil {
		t.Errorf("without a stream the answer has the sequence %d", seq)
	}
}

func TestAClusterHearsOrdersAfterAReconnect(t *testing.T) {
	w := aHub(t)
	h := w.join("eu1")
	heard := make(chan string, 10)
	if err := h.SubscribeOrders("sluice.fleet.down.eu1.*.*", func(subject string, data []byte) { heard <- subject + " " + string(data) }); err != nil {
		t.Fatal(err)
	}
	orders, _ := w.startHub()
	h.connected()
	give := func(subject, text string) {
		t.Helper()
		h.last(queue.StreamFleetDown, orderForEU1) // NATS has answered, so it knows the subscription
		w.until("the hub can publish", func(ctx context.Context) error {
			err := orders.Publish(ctx, subject, []byte(text), orders.Get(subject).Seq)
			if errors.Is(err, queue.ErrFleetStale) && string(orders.Get(subject).Data) == text {
				return nil // NATS has stored it and could not answer
			}
			return err
		})
	}
	want := func(text string) {
		t.Helper()
		if got := receive(w, "an order", heard); got != orderForEU1+" "+text {
			t.Errorf("the order is %q, want %q", got, text)
		}
	}
	give(orderForEU1, "begin")
	want("begin")
	w.server.Close()
	w.until("the cluster notices", func(context.Context) error {
		if h.IsConnected() {
			return errors.New("it is connected")
		}
		return nil
	})
	if _, err := h.PublishState(t.Context(), eu1Checkout, []byte("old when it arrives"), 0); err == nil {
		t.Error("an answer is published without a server")
	}
	w.start()
	h.connected()
	h.answer("the first one that arrives", 0)
	give(orderForEU2, "for another cluster")
	give(orderForEU1, "go on")
	want("go on")
}

func TestAHeartbeatReachesTheHub(t *testing.T) {
	w := aHub(t)
	w.start()
	q := w.connect()
	beats := make(chan string, 10)
	stop, err := q.SubscribeBeats("sluice.fleet.beat.*", func(subject string, data []byte) { beats <- subject + " " + string(data) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := q.WorkStreamCreated(t.Context()); err != nil { // NATS has answered, so it knows the subscription
		t.Fatal(err)
	}
	for _, name := range []string{"eu1", "eu2"} {
		h := w.join(name)
		h.connected()
		if err := h.SendBeat("sluice.fleet.beat."+name, []byte("alive")); err != nil {
			t.Fatal(err)
		}
		if got := receive(w, "a heartbeat", beats); got != "sluice.fleet.beat."+name+" alive" {
			t.Errorf("the heartbeat is %q", got)
		}
	}
}

func TestAHubWithoutAnAddressIsAnError(t *testing.T) {
	t.Parallel()
	h, err := queue.ConnectHub(queue.Options{}, "eu1", func() {})
	if err == nil {
		h.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "no address is given") {
		t.Errorf("the error is: %v", err)
	}
}
