package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
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
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/prometheus"
	"sluice.dev/sluice/test/workload"
	"sluice.dev/sluice/test/world"
)

const (
	// room is the number of pods of all runs on each node. The objects of a run stay to the end.
	room = 10_000
	// setUp bounds the start of a ground.
	setUp = 10 * time.Minute
)

// endings stop the started parts of a ground.
type endings struct{ list []func() error }

func (e *endings) inTheEnd(do func() error) { e.list = append(e.list, do) }

// stop stops the started parts, the last one first.
func (e *endings) stop() error {
	var err error
	for _, end := range slices.Backward(e.list) {
		err = errors.Join(err, end())
	}
	return err
}

// rooms bound how many runs there are side by side.
type rooms struct {
	runs atomic.Int64
	// playing holds one element for each run under way.
	playing chan struct{}
}

func newRooms() *rooms { return &rooms{playing: make(chan struct{}, *atOnce)} }

// enter waits until there is room for another run, and returns its name. The function leave frees the room again.
func (r *rooms) enter() (name string, leave func()) {
	r.playing <- struct{}{}
	return fmt.Sprintf("run-%d", r.runs.Add(1)), func() { <-r.playing }
}

// ground has the servers of yards: a control plane, a NATS and a Prometheus.
type ground struct {
	*world.World
	*endings
	*rooms
	prometheus *prometheus.Server
	kubernetes kubernetes.Interface
	objects    dynamic.Interface
	witness    *witness
	archive    *archive
	queue      *queue.Queue
	work       jetstream.Stream
	js         jetstream.JetStream
	scripts    *script.Library
}

// shared is a ground that tests use together, started by the first one.
type shared[G interface{ stop() error }] struct {
	start  func(context.Context) (G, error)
	once   sync.Once
	ground G
	err    error
}

var (
	// grounds is the ground of all yards, fleetGrounds the one of all fleets.
	grounds      = shared[*ground]{start: newGround}
	fleetGrounds = shared[*fleetGround]{start: newFleetGround}
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(grounds.stop(), fleetGrounds.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// stop stops the ground, if a test has started it.
func (s *shared[G]) stop() error {
	started := true
	s.once.Do(func() { started = false })
	if !started || s.err != nil {
		return nil
	}
	return s.ground.stop()
}

// of returns the shared ground. When all plans are played, the test gets its own ground, because so many runs leave too
// many objects for one.
func (s *shared[G]) of(t *testing.T) G {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	if *everything {
		g, err := s.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.stop(); err != nil {
				t.Error(err)
			}
		})
		return g
	}
	sideBySide(t)
	s.once.Do(func() { s.ground, s.err = s.start(context.Background()) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.ground
}

func newYard(t *testing.T, v variant) *yard {
	t.Helper()
	return &yard{grounds.of(t), v}
}

// sideBySide lets a test run in parallel with others, except when all plans are played.
func sideBySide(t *testing.T) {
	if !*everything {
		t.Parallel()
	}
}

// newGround starts all servers that a yard needs. The caller must call stop.
func newGround(ctx context.Context) (*ground, error) {
	g := &ground{scripts: script.NewLibrary(luaconfiguration.FS, ""), endings: &endings{}, rooms: newRooms()}
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

func (g *ground) start(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "sluice-crash-")
	if err != nil {
		return err
	}
	g.inTheEnd(func() error { return natsdir.Remove(dir) })
	if g.prometheus, err = prometheus.Start(ctx, prometheus.Options{}); err != nil {
		return err
	}
	g.inTheEnd(g.prometheus.Stop)
	g.World, err = world.Start(ctx, dir, world.Options{Unaudited: true, Nodes: size, PodsPerNode: room})
	if g.World != nil {
		g.inTheEnd(func() error { g.NATS.Close(); return g.Stop() })
	}
	if err != nil {
		return err
	}
	stop, err := workload.Serve(ctx, g.World)
	if err != nil {
		return err
	}
	g.inTheEnd(stop)
	if g.kubernetes, err = kubernetes.NewForConfig(g.Config); err != nil {
		return err
	}
	if g.objects, err = dynamic.NewForConfig(g.Config); err != nil {
		return err
	}
	return g.watch(ctx)
}

// watch starts the observers, which run until the ground stops.
func (g *ground) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.inTheEnd(func() error { stop(); return nil })
	var wait func()
	var err error
	if g.witness, wait, err = startWitness(ctx, g.objects, watched()); err != nil {
		return err
	}
	g.inTheEnd(func() error { stop(); wait(); return nil })
	if g.queue, err = g.Connect(ctx, "yard"); err != nil {
		return err
	}
	g.inTheEnd(func() error { g.queue.Close(); return nil })
	conn, err := nats.Connect(g.NATS.URL(), nats.UserInfo(g.NATS.User(), g.NATS.Password()))
	if err != nil {
		return err
	}
	g.inTheEnd(func() error { conn.Close(); return nil })
	if g.js, err = jetstream.New(conn); err != nil {
		return err
	}
	if g.archive, err = readArchive(ctx, g.js); err != nil {
		return err
	}
	g.work, err = g.js.Stream(ctx, queue.StreamWork)
	return err
}
