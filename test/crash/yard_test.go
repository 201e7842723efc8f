package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/test/prometheus"
	"sluice.dev/sluice/test/world"
)

const (
	// bound is for a release that never ends although things move.
	bound = 10 * time.Minute
	// resync is that of a watcher which loses a frame.
	resync = 3 * time.Second
	// room is for the pods of all runs on each of two nodes: what a run has made stays to the end.
	room = 10_000
	// resyncs is how often everything is looked at again at rest.
	resyncs = 3
	// glance is how often NATS is asked whether a hint was worked off, for which there is no event.
	glance = 25 * time.Millisecond
)

// yard is where all runs take place: one control plane and one NATS.
type yard struct {
	*world.World
	variant    variant
	provider   string // the address of the Prometheus of a measured release
	kubernetes kubernetes.Interface
	objects    dynamic.Interface
	witness    *witness
	archive    *archive
	queue      *queue.Queue
	work       jetstream.Stream
	js         jetstream.JetStream
	scripts    *script.Library
	runs       atomic.Int64
}

func newYard(t *testing.T, v variant) *yard {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	y := &yard{scripts: script.NewLibrary(luaconfiguration.FS, ""), variant: v}
	if v.measured() {
		y.provider = prometheus.ForTest(t, prometheus.Options{}).Address
	}
	dir, err := os.MkdirTemp("", "sluice-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if y.World, err = world.Start(t.Context(), dir, world.Options{Unaudited: true, PodsPerNode: room}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		y.NATS.Close()
		if err := y.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := y.connect(t); err != nil {
		t.Fatal(err)
	}
	return y
}

func (y *yard) connect(t *testing.T) (err error) {
	if y.kubernetes, err = kubernetes.NewForConfig(y.Config); err != nil {
		return err
	}
	if y.objects, err = dynamic.NewForConfig(y.Config); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wait func()
	if y.witness, wait, err = startWitness(ctx, y.objects); err != nil {
		stop()
		return err
	}
	t.Cleanup(func() { stop(); wait() })
	if y.queue, err = y.Connect(ctx, "yard"); err != nil {
		return err
	}
	t.Cleanup(y.queue.Close)
	conn, err := nats.Connect(y.NATS.URL(), nats.UserInfo(y.NATS.User(), y.NATS.Password()))
	if err != nil {
		return err
	}
	t.Cleanup(conn.Close)
	if y.js, err = jetstream.New(conn); err != nil {
		return err
	}
	if y.archive, err = readArchive(ctx, y.js); err != nil {
		return err
	}
	y.work, err = y.js.Stream(ctx, queue.StreamWork)
	return err
}

// dismiss takes away the consumers of a run, which is a cluster of its own for NATS: a stream has a thousand at the most.
func (y *yard) dismiss(ctx context.Context, name string) error {
	err := errors.Join(
		y.js.DeleteConsumer(ctx, queue.StreamWork, "executor-"+name),
		y.js.DeleteConsumer(ctx, queue.StreamApprovals, "approval-"+name),
	)
	if y.variant.measured() {
		err = errors.Join(err, y.js.DeleteConsumer(ctx, queue.StreamWork, "analyzer-"+name))
	}
	return err
}

// outcome is what a run leaves behind.
type outcome struct {
	acts []act
	// end are the objects that are there in the end, counts how often each was made and taken away.
	end    map[string]any
	counts map[string]string
	// told are the transitions of the release, to show where a run took another way.
	told []string
	// broken are the laws that were broken on the way.
	broken []string
}

var errNotReached = errors.New("what should go wrong never happened")

// run plays one release by a plan.
func (y *yard) run(ctx context.Context, p plan) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	name := fmt.Sprintf("run-%d", y.runs.Add(1))
	j, h := newJournal(p), y.witness.of(name)
	defer y.witness.forget(name)
	c := &crew{journal: j, w: y.World, measures: y.variant.measured(), scripts: y.scripts, namespace: name, cluster: name, arrive: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	err := y.play(ctx, name, c, h)
	if ended := errors.Join(c.end(), y.dismiss(ctx, name)); err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-j.happened:
	default:
		if p != (plan{}) {
			return nil, errNotReached
		}
	}
	changes := h.ordered()
	o := &outcome{acts: j.all(), end: endOf(changes, name), counts: countsOf(changes), told: toldOf(changes), broken: append(j.told(), breaches(changes, y.variant)...)}
	return o, nil
}

func (y *yard) play(ctx context.Context, name string, c *crew, h *history) error {
	if err := y.create(ctx, name); err != nil {
		return err
	}
	if err := y.release(ctx, name, h, c.journal); err != nil {
		return err
	}
	close(c.arrive)
	c.late.Wait()
	key := queue.Key{Cluster: name, Namespace: name, Name: app}
	// The first look settles what is still under way; a late request may have made something that must go again.
	if err := y.look(ctx, key); err != nil {
		return err
	}
	if err := h.await(ctx, "rest", y.settled); err != nil {
		return err
	}
	if err := y.archive.await(ctx, name, h); err != nil {
		return err
	}
	return y.rest(ctx, key, c, h)
}

// rest looks again and again at what is at rest: that must write nothing.
func (y *yard) rest(ctx context.Context, key queue.Key, c *crew, h *history) error {
	if err := y.look(ctx, key); err != nil {
		return err
	}
	c.recorded()
	was, done := c.written(), len(c.all())
	for range resyncs {
		if err := y.look(ctx, key); err != nil {
			return err
		}
	}
	if n := c.written() - was; n > 0 {
		c.breach("NoWritesAtRest: %d writes at rest, among %v; the Rollout changed last (-before +after):\n%s", n, c.all()[done:], lastChange(h.ordered(), key.Namespace))
	}
	return nil
}

// look has everybody look who works on the release, and waits until they have.
func (y *yard) look(ctx context.Context, key queue.Key) error {
	if err := y.lookOnce(ctx, key); err != nil || !y.variant.measured() {
		return err
	}
	key.Task = queue.TaskAnalysis
	return y.lookOnce(ctx, key)
}

// lookOnce gives a hint and waits until it was acknowledged.
func (y *yard) lookOnce(ctx context.Context, key queue.Key) error {
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	if err := y.queue.Hint(ctx, key); err != nil {
		return err
	}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		_, err := y.work.GetLastMsgForSubject(ctx, key.WorkSubject())
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a hint was not worked off: %w, %w", ctx.Err(), err)
		}
	}
}
