package fleetlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/ports"
)

// patience bounds every wait of these tests; only a defect can use it up.
const patience = 10 * time.Minute

var (
	checkout = types.NamespacedName{Namespace: "shop", Name: "checkout"}
	pay      = types.NamespacedName{Namespace: "shop", Name: "pay"}
	governor = api.FleetReference{Namespace: "shop", Name: "checkout"}
	members  = map[string]string{"eu1": "secret of eu1", "eu2": "secret of eu2"}
)

func keyPair(t testing.TB) nkeys.KeyPair {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func public(t testing.TB, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// hub is the hub of a fleet of eu1 and eu2.
type hub struct {
	*testing.T
	server *embedded.Server
	opts   embedded.Options
	queue  *queue.Queue
	// orders and answers are the last messages, and answered gets the subject of each answer.
	orders, answers *queue.FleetStates
	answered        chan string
	key             nkeys.KeyPair
	// way is how clusters reach the server, nil for directly.
	way *way
}

// way is a proxy to the server that can be cut.
type way struct {
	t       *testing.T
	address string
	server  string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	work     sync.WaitGroup
}

func aWay(t *testing.T, server int) *way {
	t.Helper()
	w := &way{t: t, address: ports.Address(t), server: fmt.Sprintf("127.0.0.1:%d", server)}
	w.mend()
	t.Cleanup(func() { w.cut(); w.work.Wait() })
	return w
}

// mend lets clients connect.
func (w *way) mend() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.listener = l
	w.mu.Unlock()
	w.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.carry(client)
		}
	})
}

// carry copies between a client and the server until the way is cut.
func (w *way) carry(client net.Conn) {
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	pipe := func(to, from net.Conn) func() {
		return func() { _, _ = io.Copy(to, from); _ = to.Close() }
	}
	w.work.Go(pipe(server, client))
	w.work.Go(pipe(client, server))
}

// cut ends all connections, and refuses new ones.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.listener.Close()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// aHub returns a hub whose server runs.
func aHub(t *testing.T) *hub {
	t.Helper()
	t.Parallel()
	h := &hub{
		T: t, key: keyPair(t), answered: make(chan string, 100),
		opts: embedded.Options{Dir: natsdir.ForTest(t), Port: ports.Free(t), User: "sluice", Password: "correct horse", Members: members},
	}
	h.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if h.queue, err = queue.Connect(ctx, queue.Options{URL: h.url(), User: h.opts.User, Password: h.opts.Password, Logger: h.logger("hub")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.queue.Close)
	if err := h.queue.CreateHubStreams(ctx); err != nil {
		t.Fatal(err)
	}
	h.orders = h.queue.NewFleetStates(queue.StreamFleetDown, func(string) {})
	h.answers = h.queue.NewFleetStates(queue.StreamFleetUp, func(subject string) { h.answered <- subject })
	h.run("the orders", h.orders.Run)
	h.run("the answers", h.answers.Run)
	h.until("the hub has read its streams", func() error {
		if !h.orders.IsSynced() || !h.answers.IsSynced() {
			return errors.New("it has not")
		}
		return nil
	})
	return h
}

func (h *hub) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", h.opts.Port) }

func (h *hub) start() {
	h.Helper()
	s, err := embedded.Start(h.opts)
	if err != nil {
		h.Fatal(err)
	}
	h.server = s
	h.Cleanup(s.Close)
}

func (h *hub) logger(of string) *slog.Logger {
	return slog.New(slog.NewTextHandler(h.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("of", of)
}

// run runs something until the end of the test.
func (h *hub) run(what string, do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := do(ctx); err != nil {
			h.Errorf("%s ends with: %v", what, err)
		}
	}()
	stop = func() { cancel(); <-done }
	h.Cleanup(stop)
	return stop
}

// until asks until ok returns nil.
func (h *hub) until(what string, ok func() error) {
	h.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-end:
			h.Fatalf("waiting until %s: %v", what, err)
		case <-tick.C:
		}
	}
}

func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
		panic(errors.ErrUnsupported)
	}
}

// restart stops the server, and starts it again. empty: it has lost its streams.
func (h *hub) restart(empty bool, meanwhile func()) {
	h.Helper()
	h.server.Close()
	if empty {
		if err := natsdir.Remove(h.opts.Dir); err != nil {
			h.Fatal(err)
		}
		if err := os.Mkdir(h.opts.Dir, 0o700); err != nil {
			h.Fatal(err)
		}
	}
	meanwhile()
	h.start()
}

// cluster is a process of a cluster, with its connection to the hub.
type cluster struct {
	*Link
	hub *hub
	// key signs the answers of the cluster.
	key   nkeys.KeyPair
	hints chan queue.Key
	stop  func()
	// beats counts the heartbeats: one at the start, and one as soon as the link has connected and reads all subjects again.
	beats atomic.Int64

	mu      sync.Mutex
	trusted []string
}

// join runs a process of a cluster. A second one of the same cluster has the key of the first one.
func (h *hub) join(name string, key nkeys.KeyPair, change ...func(*Options)) *cluster {
	h.Helper()
	c := &cluster{hub: h, key: key, hints: make(chan queue.Key, 100), trusted: []string{public(h, h.key)}}
	url := h.url()
	if h.way != nil {
		url = "nats://" + h.way.address
	}
	o := Options{
		NATS:   queue.Options{URL: url, User: name, Password: members[name], Logger: h.logger(name)},
		Member: fleetmessage.Member{Name: name, UID: "uid-of-" + name}, Hub: "hub", ClusterName: "default", Version: "v0.3.0",
		Keys: func() (nkeys.KeyPair, []string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.key, c.trusted, nil
		},
		Publish: func(_ context.Context, k queue.Key) error { c.hints <- k; return nil },
		Enforcement: func(context.Context) api.FleetEnforcement {
			c.beats.Add(1)
			return api.FleetEnforcementPolicy
		},
		Logger: h.logger(name),
	}
	for _, do := range change {
		do(&o)
	}
	c.Link = New(o)
	c.stop = h.run("the link of "+name, c.Run)
	return c
}

// joined is join for a cluster that has connected, and knows the messages about a Rollout.
func (h *hub) joined(name string, key nkeys.KeyPair, change ...func(*Options)) *cluster {
	h.Helper()
	c := h.join(name, key, change...)
	h.until("the link has connected", func() error {
		if c.beats.Load() < 2 {
			return errors.New("it has not")
		}
		return nil
	})
	c.Order(governed(checkout))
	c.knows(checkout)
	return c
}

// knows waits until the link has read the last messages about a Rollout.
func (c *cluster) knows(name types.NamespacedName) {
	c.hub.Helper()
	c.hub.until("the link knows the last messages about "+name.String(), func() error {
		c.Link.mu.Lock()
		defer c.Link.mu.Unlock()
		if x := c.rollouts[name]; x == nil || x.stale || !x.known {
			return fmt.Errorf("it does not: %+v", x)
		}
		return nil
	})
}

// forget waits until the link has lost its connection. After that, it knows the last messages about the Rollout only when it has read them again.
func (c *cluster) forget() {
	c.hub.Helper()
	c.hub.until("the link notices", func() error {
		if c.conn.IsConnected() {
			return errors.New("it is connected")
		}
		return nil
	})
	c.Link.mu.Lock()
	defer c.Link.mu.Unlock()
	c.rollouts[checkout].known, c.rollouts[checkout].stale = false, true
}

// settled waits until the link has noted what it has sent.
func (c *cluster) settled(name types.NamespacedName) {
	c.hub.Helper()
	c.hub.until("the link has sent its answer about "+name.String(), func() error {
		c.Link.mu.Lock()
		defer c.Link.mu.Unlock()
		if x := c.rollouts[name]; x == nil || x.sending || x.next != nil {
			return fmt.Errorf("it has not: %+v", x)
		}
		return nil
	})
}

// wantHint waits for a hint about a Rollout.
func (c *cluster) wantHint(name types.NamespacedName) {
	c.hub.Helper()
	want := queue.Key{Cluster: "default", Namespace: name.Namespace, Name: name.Name}
	if diff := cmp.Diff(want, receive(c.hub, "a hint", c.hints)); diff != "" {
		c.hub.Errorf("the hint (-want +got):\n%s", diff)
	}
}

// runs acts like the executor: it reports at once, and again after each hint, until the hub has the answer.
func (c *cluster) runs(name types.NamespacedName, report func()) {
	c.hub.Helper()
	subject := fleetmessage.AnswerSubject(c.Member.Name, fleetmessage.Name(name))
	report()
	for end := time.After(patience); ; {
		select {
		case <-c.hints:
			report()
		case got := <-c.hub.answered:
			if got == subject && c.hub.answers.Get(subject).Seq > 0 {
				c.settled(name)
				return
			}
		case <-end:
			c.hub.Fatalf("the hub gets no answer about %s", name)
		}
	}
}

// reports is runs for a report about the Rollout of the fleet.
func (c *cluster) reports(name types.NamespacedName, report api.FleetReport) {
	c.hub.Helper()
	c.runs(name, func() { c.Report(name, api.FleetReference(name), report, c.Generation(name)) })
}

// governed is a Rollout that the FleetRollout of its name governs.
func governed(name types.NamespacedName) *api.Rollout {
	reference := api.FleetReference(name)
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	r.Spec.Fleet = &reference
	return r
}

// withPermit returns the Rollout with a permit that it has taken in.
func withPermit(r *api.Rollout, permit *api.FleetPermit) *api.Rollout {
	r.Status.Fleet = &api.RolloutFleetStatus{FleetRollout: *r.Spec.Fleet, Permit: permit}
	return r
}

// permit is the permit of version 2.
func permit(epoch, seq int64) *api.FleetPermit {
	return &api.FleetPermit{Epoch: epoch, Seq: seq, Verb: api.FleetVerbRelease, Version: "version/v2", Revision: "h2", HoldAt: 1}
}

// anOrder is an order of the hub to a cluster.
func anOrder(member string) fleetmessage.Order {
	return fleetmessage.Order{
		Hub: "hub", FleetRollout: governor, UID: "f", Member: fleetmessage.Member{Name: member, UID: "uid-of-" + member}, Rollout: fleetmessage.Name(checkout), Permit: permit(5, 2),
		Blocked: []api.FleetBlock{{Version: "version/v1", Epoch: 4}},
	}
}

// give publishes an order, signed by a key.
func (h *hub) give(order fleetmessage.Order, key nkeys.KeyPair) {
	h.Helper()
	message, err := order.Seal(key)
	if err != nil {
		h.Fatal(err)
	}
	h.publish(fleetmessage.OrderSubject(order.Member.Name, fleetmessage.Name(checkout)), message)
}

// publish publishes to a subject of an order.
func (h *hub) publish(subject string, message []byte) {
	h.Helper()
	if err := h.orders.Publish(h.Context(), subject, message, h.orders.Get(subject).Seq); err != nil {
		h.Fatal(err)
	}
}

// state is the last answer of a cluster about a Rollout, zero for none.
func (h *hub) state(member string, name types.NamespacedName) queue.FleetState {
	return h.answers.Get(fleetmessage.AnswerSubject(member, fleetmessage.Name(name)))
}

// wantAnswer checks the last answer of a cluster about a Rollout, and returns it. last is Sent of the one before.
func (c *cluster) wantAnswer(name types.NamespacedName, want api.FleetReport, last int64) fleetmessage.Answer {
	c.hub.Helper()
	expected := fleetmessage.Expected{Member: c.Member, Keys: []string{public(c.hub, c.key)}}
	answer, err := expected.OpenAnswer(c.hub.state(c.Member.Name, name).Data, fleetmessage.Name(name), api.FleetReference(name), last)
	if err != nil {
		c.hub.Fatalf("the hub refuses the answer: %v", err)
	}
	if diff := cmp.Diff(want, answer.Report); diff != "" {
		c.hub.Errorf("the report (-want +got):\n%s", diff)
	}
	return answer
}

// wantSent waits until the process has sent that many answers.
func (c *cluster) wantSent(want int) {
	c.hub.Helper()
	c.hub.until("the process has sent its answers", func() error {
		if n := int(testutil.ToFloat64(c.metrics.answers.WithLabelValues("ok"))); n != want {
			return fmt.Errorf("it has sent %d, want %d", n, want)
		}
		return nil
	})
}

// failures is how many answers could not be sent.
func (c *cluster) failures() int {
	return int(testutil.ToFloat64(c.metrics.answers.WithLabelValues("error")))
}

// refusals is how many orders were refused for a reason.
func (c *cluster) refusals(reason fleetmessage.Reason) int {
	return int(testutil.ToFloat64(c.metrics.refusals.WithLabelValues(string(reason))))
}
