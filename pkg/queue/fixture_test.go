package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/ports"
)

// patience bounds every wait of these tests; only a defect can use it up.
const patience = 5 * time.Minute

// world is one NATS server, and the clients of a test.
type world struct {
	*testing.T
	server *embedded.Server
	opts   embedded.Options
	admin  jetstream.JetStream
}

func aWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{T: t, opts: embedded.Options{Dir: natsdir.ForTest(t), Port: ports.Free(t)}}
	w.start()
	w.opts.User, w.opts.Password = w.server.User(), w.server.Password()
	nc, err := nats.Connect(w.server.URL(), nats.UserInfo(w.opts.User, w.opts.Password), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if w.admin, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() {
	w.Helper()
	s, err := embedded.Start(w.opts)
	if err != nil {
		w.Fatal(err)
	}
	w.server = s
	w.Cleanup(s.Close)
}

func (w *world) connect() *queue.Queue {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	q, err := queue.Connect(ctx, queue.Options{
		URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password, Name: w.Name(),
		Logger: slog.New(slog.NewTextHandler(w.Output(), nil)),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(q.Close)
	return q
}

// consume starts a consumer. It returns a function that stops the consumer and waits for it.
func (w *world) consume(q *queue.Queue, cluster string, workers int, h queue.Handler) (stop func() error) {
	return w.consumeWith(q, queue.ConsumeOptions{Cluster: cluster, Workers: workers, Handler: h})
}

func (w *world) consumeWith(q *queue.Queue, o queue.ConsumeOptions) (stop func() error) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	var err error
	go func() { err = q.Consume(ctx, o); close(done) }()
	stop = func() error { cancel(); <-done; return err }
	w.Cleanup(func() { cancel(); <-done })
	return stop
}

func (w *world) hint(q *queue.Queue, k queue.Key) {
	w.Helper()
	if err := q.PublishHint(w.Context(), k); err != nil {
		w.Fatal(err)
	}
}

// settled waits until no hint and no timer is left in NATS.
func (w *world) settled() {
	w.Helper()
	w.until("no hint and no timer is left", func(ctx context.Context) error {
		s, err := w.admin.Stream(ctx, queue.StreamWork)
		if err == nil && s.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d are left", s.CachedInfo().State.Msgs)
		}
		return err
	})
}

// until asks NATS until ok returns nil.
func (w *world) until(what string, ok func(context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("waiting until %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// receive waits for a value.
func receive[T any](w *world, what string, ch <-chan T) T {
	w.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		w.Fatalf("%s: nothing came", what)
		panic(errors.ErrUnsupported)
	}
}

func named(name string) queue.Key { return queue.Key{Cluster: "c", Namespace: "shop", Name: name} }
