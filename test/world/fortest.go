package world

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/test/natsdir"
)

// ForTest returns a world for one test, with a running watcher and executor.
func ForTest(t testing.TB, o Options) *World {
	t.Helper()
	w := Bare(t, o)
	w.Begin(t, w.RunWatcher)
	w.Begin(t, func(ctx context.Context) (func(), error) { return w.RunExecutor(ctx, o.LuaDir) })
	return w
}

// Bare returns a world for one test, in which no component of Sluice runs yet.
func Bare(t testing.TB, o Options) *World {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w, err := Start(ctx, natsdir.ForTest(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o.NATS == nil {
			w.NATS.Close()
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Begin runs a component until the test has ended.
func (w *World) Begin(t testing.TB, part func(context.Context) (stop func(), err error)) {
	t.Helper()
	stop, err := part(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// Executor runs an executor with the built-in scripts, for [World.Begin].
func (w *World) Executor(ctx context.Context) (stop func(), err error) { return w.RunExecutor(ctx, "") }

// BeginTorment torments executors until the caller calls calm, or the test ends. The function calm returns the numbers
// of kills and freezes.
func (p Program) BeginTorment(t testing.TB, pause time.Duration) (calm func() Torment) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var suffered Torment
	var torment errgroup.Group
	torment.Go(func() (err error) {
		suffered, err = p.Torment(ctx, 1, pause)
		return err
	})
	calm = sync.OnceValue(func() Torment {
		cancel()
		if err := torment.Wait(); err != nil {
			t.Error(err)
		}
		return suffered
	})
	t.Cleanup(func() { calm() })
	return calm
}

// JetStream returns the JetStream of the world's NATS, for data that the components of Sluice do not show. Its
// connection is closed when the test ends.
func (w *World) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(w.NATS.URL(), nats.UserInfo(w.NATS.User(), w.NATS.Password()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
