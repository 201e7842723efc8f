package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// ground has the servers of yards: a control plane, a NATS and a Prometheus.
type ground struct {
	*world.World
	prometheus *prometheus.Server
	kubernetes kubernetes.Interface
	objects    dynamic.Interface
	witness    *witness
	archive    *archive
	queue      *queue.Queue
	work       jetstream.Stream
	js         jetstream.JetStream
	scripts    *script.Library
	runs       atomic.Int64
	// playing holds one element for each run under way.
	playing chan struct{}
	// ends stop the started parts.
	ends []func() error
}

// shared is the ground of all yards, created with the first one.
var shared struct {
	once   sync.Once
	ground *ground
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.ground != nil {
		if err := shared.ground.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// newYard returns a yard on the shared ground. When all plans are played, it gets its own ground, because so many runs
// leave too many objects for one.
func newYard(t *testing.T, v variant) *yard {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	if *everything {
		g, err := newGround(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.stop(); err != nil {
				t.Error(err)
			}
		})
		return &yard{g, v}
	}
	sideBySide(t)
	shared.once.Do(func() { shared.ground, shared.err = newGround(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &yard{shared.ground, v}
}

// sideBySide lets a test run in parallel with others, except when all plans are played.
func sideBySide(t *testing.T) {
	if !*everything {
		t.Parallel()
	}
}

// newGround starts all servers that a yard needs. The caller must call stop.
func newGround(ctx context.Context) (*ground, error) {
	g := &ground{scripts: script.NewLibrary(luaconfiguration.FS, ""), playing: make(chan struct{}, *atOnce)}
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
	if g.witness, wait, err = startWitness(ctx, g.objects); err != nil {
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

func (g *ground) inTheEnd(do func() error) { g.ends = append(g.ends, do) }

// stop stops the started parts, the last one first.
func (g *ground) stop() error {
	var err error
	for i := len(g.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, g.ends[i]())
	}
	return err
}

// enter waits until there is room for another run. The function leave frees it again.
func (g *ground) enter() (leave func()) {
	g.playing <- struct{}{}
	return func() { <-g.playing }
}
