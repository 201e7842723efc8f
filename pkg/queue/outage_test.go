package queue_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

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
	for _, name := range []string{queue.StreamWork, queue.StreamEvents, queue.StreamApprovals, queue.StreamDead, "KV_" + queue.BucketLease, "KV_" + queue.BucketAnalysis} {
		if err := w.admin.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// The test sends no hint before the consumer has noticed by itself.
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

// Each stream, the leases and the consumer are deleted under load, one after the other and all at once.
func TestNothingIsLostWhateverIsDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	remove := map[string]func(context.Context, jetstream.JetStream) error{
		"the consumer": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteConsumer(ctx, queue.StreamWork, "executor-c")
		},
	}
	streams := []string{queue.StreamWork, "KV_" + queue.BucketLease, "KV_" + queue.BucketAnalysis, queue.StreamEvents, queue.StreamApprovals, queue.StreamDead}
	for _, name := range streams {
		remove[name] = func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, name) }
	}
	remove["all streams at once"] = func(ctx context.Context, js jetstream.JetStream) error {
		var deletions errgroup.Group
		for _, name := range streams {
			deletions.Go(func() error { return js.DeleteStream(ctx, name) })
		}
		return deletions.Wait()
	}
	for what, from := range remove {
		t.Run(what, func(t *testing.T) {
			w := aWorld(t)
			l := underLoad(t, 60, w.connect(), w.connect(), w.connect())
			l.everyLastHintRuns(patience) // by then the runners have created the consumer
			l.hintFor(300 * time.Millisecond)
			at := time.Now()
			if err := from(t.Context(), w.admin); err != nil {
				t.Fatal(err)
			}
			l.hintFor(500 * time.Millisecond)
			l.everyLastHintRuns(patience)
			w.settled()
			longest, runs := l.stall(at)
			t.Logf("%d runs since, the longest time without one was %s", runs, longest.Round(time.Millisecond))
		})
	}
}

// The senders of lost hints can see that their stream was lost.
func TestAStreamThatWasMadeAgainIsOfAnotherGeneration(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	generation := func() time.Time {
		t.Helper()
		g, err := q.WorkStreamCreated(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := generation()
	w.hint(q, named("x"))
	if again := generation(); !again.Equal(first) {
		t.Errorf("a hint changes it from %s to %s", first, again)
	}
	if err := w.admin.DeleteStream(t.Context(), queue.StreamWork); err != nil {
		t.Fatal(err)
	}
	if _, err := q.WorkStreamCreated(t.Context()); err == nil {
		t.Error("a stream that does not exist has one")
	}
	w.hint(q, named("x"))
	if last := generation(); !last.After(first) {
		t.Errorf("it is %s, as before or older than %s", last, first)
	}
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
		if q.IsConnected() {
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
