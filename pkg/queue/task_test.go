package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/queue"
)

// measuring returns the key of the analysis of a Rollout.
func measuring(name string) queue.Key {
	k := named(name)
	k.Task = queue.TaskAnalysis
	return k
}

// analyze consumes as analyzers do.
func (w *world) analyze(q *queue.Queue, h queue.Handler) (stop func() error) {
	return w.consumeWith(q, queue.ConsumeOptions{Cluster: "c", Task: queue.TaskAnalysis, Workers: 1, Handler: h})
}

// Each run begins while the other is under way, so neither waits for the other's lease.
func TestAReleaseAndItsMeasurementsRunSideBySide(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	begun, goOn := make(chan queue.Key, 10), make(chan struct{})
	handle := func(_ context.Context, k queue.Key) queue.Result {
		begun <- k
		<-goOn
		return queue.Result{}
	}
	w.consume(q, "c", 1, handle)
	w.analyze(q, handle)
	w.hint(q, named("x"))
	if diff := cmp.Diff(named("x"), receive(w, "the release", begun)); diff != "" {
		t.Error(diff)
	}
	w.hint(q, measuring("x"))
	if diff := cmp.Diff(measuring("x"), receive(w, "the measurements", begun)); diff != "" {
		t.Error(diff)
	}
	close(goOn)
	w.settled()
	if len(begun) > 0 {
		t.Errorf("%s ran once more", <-begun)
	}
}

// Hints and timers of the other task stay in the stream.
func TestNobodyTakesTheOtherTask(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	at := time.Now().Add(200 * time.Millisecond)
	for _, k := range []queue.Key{named("x"), measuring("x")} {
		if err := q.SetTimer(t.Context(), k, at); err != nil {
			t.Fatal(err)
		}
	}
	ran := make(chan queue.Key, 10)
	handle := func(_ context.Context, k queue.Key) queue.Result {
		ran <- k
		return queue.Result{}
	}
	stop := w.analyze(q, handle)
	if diff := cmp.Diff(measuring("x"), receive(w, "the timer of the measurements", ran)); diff != "" {
		t.Error(diff)
	}
	onTime(t, at, time.Now())
	w.until("only the hint to the executors is left", func(ctx context.Context) error {
		s, err := w.admin.Stream(ctx, queue.StreamWork)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			return err
		}
		if diff := cmp.Diff(map[string]uint64{named("x").WorkSubject(): 1}, info.State.Subjects); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	w.consume(q, "c", 1, handle)
	if diff := cmp.Diff(named("x"), receive(w, "the timer of the release", ran)); diff != "" {
		t.Error(diff)
	}
	w.settled()
}

func TestLettersOfTheTasksAreApart(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	for _, k := range []queue.Key{measuring("x"), named("x"), measuring("y")} {
		q.FailInARow(t.Context(), k, 10, fmt.Errorf("boom of %s", k))
	}
	about := func(k queue.Key) queue.DeadLetter {
		return queue.DeadLetter{Key: k, Reason: queue.Failing, Error: "boom of " + k.String(), Attempts: 10}
	}
	if diff := cmp.Diff([]queue.DeadLetter{about(named("x")), about(measuring("x")), about(measuring("y"))}, w.letters(q), whenAndWhere); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	for _, k := range []queue.Key{named("x"), measuring("x")} {
		l, err := q.GetDeadLetter(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(about(k), l, whenAndWhere); diff != "" {
			t.Errorf("letter of %s (-want +got):\n%s", k, diff)
		}
	}
	if _, err := q.GetDeadLetter(t.Context(), named("y")); !errors.Is(err, queue.ErrNoDeadLetter) {
		t.Errorf("a letter about a release whose measurements fail: %v", err)
	}

	// After a retry of one letter, the other letters stay.
	if err := q.RetryDeadLetter(t.Context(), measuring("x")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]queue.DeadLetter{about(named("x")), about(measuring("y"))}, w.letters(q), whenAndWhere); diff != "" {
		t.Errorf("letters that are left (-want +got):\n%s", diff)
	}
	ran := make(chan queue.Key, 10)
	w.analyze(q, func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} })
	if diff := cmp.Diff(measuring("x"), receive(w, "retry", ran)); diff != "" {
		t.Error(diff)
	}
}

// analyzerMade creates the consumer of analyzers in NATS without a worker.
func (w *world) analyzerMade(q *queue.Queue) jetstream.Consumer {
	w.Helper()
	ran := make(chan queue.Key, 1)
	stop := w.analyze(q, func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} })
	w.hint(q, measuring("harmless"))
	receive(w, "run", ran)
	return w.stoppedConsumer(stop, "analyzer-c")
}

// Every process died before it could write the letter. The advisory of NATS counts as one, and is not about the
// release.
func TestWhatNATSTellsOfMeasurementsIsNotAboutTheRelease(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	c := w.analyzerMade(q)
	w.hint(q, measuring("poison"))
	w.die(c, c.CachedInfo().Config.MaxDeliver)
	if m, err := c.Next(jetstream.FetchMaxWait(time.Second)); err == nil { // NATS notices when a client asks for work
		t.Errorf("poison is delivered once more: %s", m.Subject())
	}
	w.until("NATS has told of it", func(ctx context.Context) error { return w.deadMessages(ctx, 1) })
	if _, err := q.GetDeadLetter(t.Context(), named("poison")); !errors.Is(err, queue.ErrNoDeadLetter) {
		t.Errorf("a letter about the release: %v", err)
	}
	if _, err := q.GetDeadLetter(t.Context(), measuring("poison")); err != nil {
		t.Error(err)
	}
}

// Work that killed analyzers is abandoned like work that killed executors, and its letter names analyzers.
func TestMeasurementsThatKillAreGivenUp(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	c := w.analyzerMade(q)
	w.hint(q, measuring("poison"))
	w.die(c, c.CachedInfo().Config.MaxDeliver-1)
	stop := w.analyze(q, ranNever(w))
	w.settled()
	want := []queue.DeadLetter{{Key: measuring("poison"), Reason: queue.Abandoned, Error: strings.Replace(poisonous, "executors", "analyzers", 1), Attempts: 20}}
	if diff := cmp.Diff(want, w.letters(q), whenAndWhere); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// Work with a letter kills two more processes, not twenty.
	w.hint(q, measuring("poison"))
	w.die(c, 2)
	w.analyze(q, ranNever(w))
	w.settled()
	want[0].Attempts = 3
	if diff := cmp.Diff(want, w.letters(q), whenAndWhere); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestATaskThatDoesNotExistIsRefused(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	bad := named("x")
	bad.Task = "paint"
	for what, err := range map[string]error{
		"hint": q.PublishHint(t.Context(), bad), "timer": q.SetTimer(t.Context(), bad, time.Now()),
		"consume": q.Consume(t.Context(), queue.ConsumeOptions{Cluster: "c", Task: "paint", Handler: ranNever(w)}),
	} {
		if err == nil || !strings.Contains(err.Error(), `task "paint"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Executors with free workers get no deliveries that wait in analyzers.
func TestProcessesBegThoseOfTheirOwnTaskOnly(t *testing.T) {
	w := aWorld(t)
	nc, err := nats.Connect(w.server.URL(), nats.UserInfo(w.opts.User, w.opts.Password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	begged := make(chan string, 100)
	if _, err := nc.Subscribe("sluice.idle.>", func(m *nats.Msg) { begged <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	q := w.connect()
	w.consume(q, "c", 1, ranNever(w))
	w.analyze(q, ranNever(w))
	missing := map[string]bool{"sluice.idle.c": true, "sluice.idle.c.analysis": true}
	for timeout := time.After(patience); len(missing) > 0; {
		select {
		case subject := <-begged:
			delete(missing, subject)
		case <-timeout:
			t.Fatalf("nobody begs on %v", missing)
		}
	}
}

// Both tasks may run in one process, with one page of metrics.
func TestMetricsTellTheTasksApart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	queue.NewMetrics(registry, queue.TaskRelease)
	queue.NewMetrics(registry, queue.TaskAnalysis)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() == "sluice_queue_buffered_hints" {
			for _, m := range f.GetMetric() {
				got = append(got, m.GetLabel()[0].GetName()+"="+m.GetLabel()[0].GetValue())
			}
		}
	}
	if diff := cmp.Diff([]string{"task=analysis", "task=release"}, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
