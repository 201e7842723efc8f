package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// whenAndWhere are fields that differ from run to run.
var whenAndWhere = cmpopts.IgnoreFields(queue.DeadLetter{}, "Since", "Time", "Process")

func (w *world) letters(q *queue.Queue) []queue.DeadLetter {
	w.Helper()
	got, err := q.ListDeadLetters(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	return got
}

func ranNever(w *world) queue.Handler {
	return func(_ context.Context, k queue.Key) queue.Result {
		w.Errorf("%s ran", k)
		return queue.Result{}
	}
}

// consumerMade creates a consumer in NATS without a worker.
func (w *world) consumerMade(q *queue.Queue) jetstream.Consumer {
	w.Helper()
	stop := w.consume(q, "c", 1, func(context.Context, queue.Key) queue.Result { return queue.Result{} })
	w.hint(q, named("harmless"))
	return w.stoppedConsumer(stop, "executor-c")
}

// stoppedConsumer stops the worker of a consumer when no hint is left, and returns the consumer.
func (w *world) stoppedConsumer(stop func() error, name string) jetstream.Consumer {
	w.Helper()
	w.settled()
	if err := stop(); err != nil {
		w.Fatal(err)
	}
	c, err := w.admin.Consumer(w.Context(), queue.StreamWork, name)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// die acts like that many processes that take the next hint and die.
func (w *world) die(c jetstream.Consumer, times int) {
	w.Helper()
	for range times {
		m, err := c.Next()
		if err == nil {
			err = m.Nak() // NATS would notice by itself, 6 s later
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

const poisonous = "no process that took it up finished a run of it: each one died, hung or lost NATS meanwhile. " +
	"Look for crashes in the executors' logs, and then retry it"

func TestTheLastDeliveryOfPoisonIsNotRunButTold(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	c := w.consumerMade(q)
	before := time.Now()
	w.hint(q, named("poison"))
	w.die(c, c.CachedInfo().Config.MaxDeliver-1)
	told := make(chan queue.DeadLetter, 10)
	stop := w.consumeWith(q, queue.ConsumeOptions{Cluster: "c", Workers: 1, Handler: ranNever(w), OnDeadLetter: func(l queue.DeadLetter) { told <- l }})
	w.settled()
	got := w.letters(q)
	want := []queue.DeadLetter{{Key: named("poison"), Reason: queue.Abandoned, Error: poisonous, Attempts: 20}}
	if diff := cmp.Diff(want, got, whenAndWhere); diff != "" {
		t.Fatalf("letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got[0], receive(w, "word of the letter", told)); diff != "" {
		t.Errorf("what is told of the letter (-written +told):\n%s", diff)
	}
	if l := got[0]; l.Since.Before(before) || l.Time.Before(l.Since) || l.Process == "" {
		t.Errorf("when and where: %+v", l)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// A resync of the watcher brings it back. It may kill two processes, not twenty.
	w.hint(q, named("poison"))
	w.die(c, 2)
	stop = w.consume(q, "c", 1, ranNever(w))
	w.settled()
	want[0].Attempts = 3
	if diff := cmp.Diff(want, w.letters(q), whenAndWhere); diff != "" {
		t.Fatalf("letters (-want +got):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// A user has fixed the cause.
	if err := q.RetryDeadLetter(t.Context(), named("poison")); err != nil {
		t.Fatal(err)
	}
	if got := w.letters(q); len(got) != 0 {
		t.Errorf("letters are left: %+v", got)
	}
	ran := make(chan queue.Key, 1)
	w.consume(q, "c", 1, func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} })
	if k := receive(w, "retry", ran); k != named("poison") {
		t.Errorf("%s ran", k)
	}
	w.settled()
	if got := w.letters(q); len(got) != 0 {
		t.Errorf("letters are left: %+v", got)
	}
}

// Every process died before it could write the letter, so the advisory of NATS counts as one.
func TestWhatNATSTellsOfPoisonIsALetter(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	c := w.consumerMade(q)
	for _, name := range []string{"poison", "replaced"} {
		w.hint(q, named(name))
		w.die(c, c.CachedInfo().Config.MaxDeliver)
	}
	// NATS notices when a client asks for work.
	if m, err := c.Next(jetstream.FetchMaxWait(time.Second)); err == nil {
		t.Errorf("poison is delivered once more: %s", m.Subject())
	}
	w.until("NATS has told of both", func(ctx context.Context) error { return w.deadMessages(ctx, 2) })
	w.hint(q, named("replaced")) // its next hint is not poison until it has killed processes as well
	want := []queue.DeadLetter{{Key: named("poison"), Reason: queue.Abandoned, Error: poisonous, Attempts: 20}}
	if diff := cmp.Diff(want, w.letters(q), whenAndWhere); diff != "" {
		t.Fatalf("letters (-want +got):\n%s", diff)
	}
	ran := make(chan queue.Key, 10)
	w.consume(q, "c", 1, func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} })
	if k := receive(w, "replaced", ran); k != named("replaced") {
		t.Errorf("%s ran", k)
	}
	if err := q.RetryDeadLetter(t.Context(), named("poison")); err != nil {
		t.Fatal(err)
	}
	if k := receive(w, "retry", ran); k != named("poison") {
		t.Errorf("%s ran", k)
	}
	w.settled()
	if got := w.letters(q); len(got) != 0 {
		t.Errorf("letters are left: %+v", got)
	}
}

func (w *world) deadMessages(ctx context.Context, want uint64) error {
	s, err := w.admin.Stream(ctx, queue.StreamDead)
	if err == nil && s.CachedInfo().State.Msgs != want {
		err = fmt.Errorf("%d messages", s.CachedInfo().State.Msgs)
	}
	return err
}

func TestAKeyThatKeepsFailingHasALetterUntilItSucceeds(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	if q.FailInARow(t.Context(), named("seldom"), 9, errors.New("no")); len(w.letters(q)) != 0 {
		t.Errorf("nine failures are a letter: %+v", w.letters(q))
	}
	succeed := q.FailInARow(t.Context(), named("often"), 25, errors.New("carry out rollout shop/often: boom"))
	want := []queue.DeadLetter{{Key: named("often"), Reason: queue.Failing, Error: "carry out rollout shop/often: boom", Attempts: 20}}
	if diff := cmp.Diff(want, w.letters(q), whenAndWhere); diff != "" {
		t.Fatalf("letters (-want +got):\n%s", diff)
	}
	succeed()
	if got := w.letters(q); len(got) != 0 {
		t.Errorf("letters are left: %+v", got)
	}
}

func TestLettersAreFoundByClusterNamespaceAndName(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	keys := []queue.Key{
		{Cluster: "eu.1", Namespace: "shop", Name: "a.b"},
		{Cluster: "eu.1", Namespace: "shop", Name: "x"},
		{Cluster: "eu.1", Namespace: "test", Name: "x"},
		{Cluster: "us", Namespace: "shop", Name: "x"},
	}
	for _, k := range keys {
		q.FailInARow(t.Context(), k, 10, errors.New("boom"))
	}
	// A reader needs no right to create streams.
	guest, err := queue.ConnectExisting(t.Context(), queue.Options{URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	for name, tt := range map[string]struct {
		cluster, namespace string
		want               []queue.Key
	}{
		"everything":                {"", "", keys},
		"a cluster":                 {"eu.1", "", keys[:3]},
		"a namespace of a cluster":  {"eu.1", "shop", keys[:2]},
		"a namespace anywhere":      {"", "test", keys[2:3]},
		"a cluster without letters": {"mars", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			letters, err := guest.ListDeadLetters(t.Context(), tt.cluster, tt.namespace)
			if err != nil {
				t.Fatal(err)
			}
			var got []queue.Key
			for _, l := range letters {
				got = append(got, l.Key)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if l, err := guest.GetDeadLetter(t.Context(), keys[0]); err != nil || l.Key != keys[0] {
		t.Errorf("letter of %s: %+v, %v", keys[0], l, err)
	}
	none := queue.Key{Cluster: "us", Namespace: "shop", Name: "y"}
	if _, err := guest.GetDeadLetter(t.Context(), none); !errors.Is(err, queue.ErrNoDeadLetter) {
		t.Errorf("a letter that is not there: %v", err)
	}
	if err := guest.RetryDeadLetter(t.Context(), none); !errors.Is(err, queue.ErrNoDeadLetter) {
		t.Errorf("retry without a letter: %v", err)
	}
	if _, err := guest.ListDeadLetters(t.Context(), "*", ""); err == nil {
		t.Error("a wildcard is taken for a name")
	}
}

func TestWhoOnlyLooksMakesNoStreams(t *testing.T) {
	w := aWorld(t)
	guest, err := queue.ConnectExisting(t.Context(), queue.Options{URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	_, err = guest.ListDeadLetters(t.Context(), "", "")
	if err == nil || !strings.Contains(err.Error(), "check its address and account") {
		t.Errorf("letters: %v", err)
	}
	if err := guest.PublishHint(t.Context(), named("x")); err == nil || !strings.Contains(err.Error(), "check its address and account") {
		t.Errorf("hint: %v", err)
	}
	account, err := w.admin.AccountInfo(t.Context())
	if err != nil || account.Streams != 0 {
		t.Errorf("%d streams were made: %v", account.Streams, err)
	}
}
