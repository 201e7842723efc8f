package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

func TestARunThatDiesIsTakenOverByAnother(t *testing.T) {
	w := aWorld(t)
	doomed := w.connect()
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	stop := w.consume(doomed, "c", 1, func(context.Context, queue.Key) queue.Result {
		begun <- struct{}{}
		<-goOn
		return queue.Result{}
	})
	w.hint(doomed, named("x"))
	receive(w, "the doomed run", begun)
	ran := make(chan struct{}, 10)
	w.consume(w.connect(), "c", 1, func(context.Context, queue.Key) queue.Result {
		ran <- struct{}{}
		return queue.Result{}
	})
	killed := time.Now()
	doomed.Close()
	receive(w, "the run that takes over", ran)
	t.Logf("taken over after %s", time.Since(killed))
	close(goOn)
	if err := stop(); err == nil {
		t.Error("a consumer whose connection was closed reports no error")
	}
	w.settled()
}

func TestWorkThatKillsEveryProcessEndsAmongTheDeadLetters(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	stop := w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result { return queue.Result{} })
	w.hint(q, named("harmless"))
	w.settled()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.hint(q, named("poison"))
	c, err := w.admin.Consumer(t.Context(), queue.StreamWork, "executor-c")
	if err != nil {
		t.Fatal(err)
	}
	for range c.CachedInfo().Config.MaxDeliver {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	// NATS notices when somebody asks for work.
	if m, err := c.Next(jetstream.FetchMaxWait(time.Second)); err == nil {
		t.Errorf("poison is delivered once more: %s", m.Subject())
	}
	w.until("a dead letter is there", func(ctx context.Context) error {
		s, err := w.admin.Stream(ctx, queue.StreamDead)
		if err == nil && s.CachedInfo().State.Msgs != 1 {
			err = fmt.Errorf("%d messages", s.CachedInfo().State.Msgs)
		}
		return err
	})
}

func TestDeletedStreamsAreMadeAgain(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	ran := make(chan queue.Key, 10)
	w.consume(q, "c", 2, func(_ context.Context, k queue.Key) queue.Result {
		ran <- k
		return queue.Result{}
	})
	w.hint(q, named("before"))
	receive(w, "run before", ran)
	w.settled()
	for _, name := range []string{queue.StreamWork, queue.StreamEvents, queue.StreamApprovals, queue.StreamDead, "KV_" + queue.BucketLease} {
		if err := w.admin.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// No hint is sent before the consumer has noticed by itself.
	w.until("the stream is back", func(ctx context.Context) error {
		_, err := w.admin.Consumer(ctx, queue.StreamWork, "executor-c")
		return err
	})
	w.hint(q, named("after"))
	if k := receive(w, "run after", ran); k != named("after") {
		t.Errorf("%s ran", k)
	}
	w.settled()
}

func TestAHintMakesTheStreamsAgain(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	if err := w.admin.DeleteStream(t.Context(), queue.StreamWork); err != nil {
		t.Fatal(err)
	}
	w.hint(q, named("x"))
}

func TestARestartOfTheServerIsSurvived(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	ran := make(chan queue.Key, 10)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	w.consume(q, "c", 2, func(_ context.Context, k queue.Key) queue.Result {
		if runs.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		ran <- k
		return queue.Result{}
	})
	w.hint(q, named("during"))
	receive(w, "run during the outage", begun)
	w.server.Close()
	w.until("the queue notices", func(context.Context) error {
		if q.Connected() {
			return context.DeadlineExceeded
		}
		return nil
	})
	close(goOn)
	receive(w, "run during the outage", ran)
	w.start()
	w.hint(q, named("after"))
	for receive(w, "run after the outage", ran) != named("after") {
	}
	w.settled()
}

func TestConnectSaysWhatToCheck(t *testing.T) {
	w := aWorld(t)
	for name, tt := range map[string]struct {
		opts queue.Options
		want []string
	}{
		"a wrong password": {queue.Options{URL: w.server.URL(), User: "sluice", Password: "guess"}, []string{w.server.URL(), "check the user and password"}},
		"no server":        {queue.Options{URL: "nats://u:secret@127.0.0.1:1"}, []string{"127.0.0.1:1", "check that the address is right"}},
		"no address":       {queue.Options{}, []string{"no address is given"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := queue.Connect(ctx, tt.opts)
			if err == nil {
				t.Fatal("it connected")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is shown: %v", err)
			}
			t.Log(err)
		})
	}
}
