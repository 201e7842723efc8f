package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"sluice.dev/sluice/pkg/queue"
)

func TestABusyRunLeavesItsLeaseToTheNextOneHere(t *testing.T) {
	w := aWorld(t)
	runs, again := 0, make(chan queue.Key)
	ran := make(chan struct{}, 2)
	w.consumeWith(w.connect(), queue.ConsumeOptions{Cluster: "c", Workers: 1, Requeue: again, Handler: func(context.Context, queue.Key) queue.Result {
		ran <- struct{}{}
		runs++
		return queue.Result{KeepLease: runs == 1}
	}})
	heard := listen(w)
	w.hint(w.connect(), named("x"))
	receive(w, "run for the hint", ran)
	heard.until(w, "+ACK")
	again <- named("x")
	receive(w, "run that the process asked for itself", ran)
	if diff := cmp.Diff([]string{"lease", "leave", "+ACK", "lease", "release"}, heard.until(w, "release")); diff != "" {
		t.Errorf("what goes over NATS (-want +got):\n%s", diff)
	}
}

func TestWhatTheProcessAsksForDuringARunIsNotForgotten(t *testing.T) {
	w := aWorld(t)
	again, ran, first := make(chan queue.Key), make(chan struct{}, 2), true
	w.consumeWith(w.connect(), queue.ConsumeOptions{Cluster: "c", Workers: 1, Requeue: again, Handler: func(_ context.Context, k queue.Key) queue.Result {
		if k != named("x") {
			return queue.Result{}
		}
		ran <- struct{}{}
		if first {
			first = false
			again <- named("x")
			again <- named("y") // the consumer takes it after it has handled the first request
		}
		return queue.Result{WakeAt: time.Now().Add(time.Minute)}
	}})
	w.hint(w.connect(), named("x"))
	receive(w, "run for the hint", ran)
	receive(w, "run that was asked for meanwhile", ran)
}

func TestALeaseThatIsLeftIsForItsHolderAndThenForAnybody(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	l, err := q.Acquire(t.Context(), named("x"), "me")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Retake(t.Context()); err != nil {
			t.Fatalf("its holder does not get it again: %v", err)
		}
		if _, err := q.Acquire(t.Context(), named("x"), "you"); err == nil {
			t.Fatal("two have the lease")
		}
	}
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("another has it", func(ctx context.Context) error {
		_, err := q.Acquire(ctx, named("x"), "you")
		return err
	})
	if l.Retake(t.Context()) == nil {
		t.Error("its holder of before has it as well")
	}
}

func TestALeaseIsLeftWhenTheAnswerToItsRenewalIsLost(t *testing.T) {
	w := aWorld(t)
	_, l := renewed(w, w.connect())
	if err := l.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Retake(t.Context()); err != nil {
		t.Errorf("its holder does not get it again: %v", err)
	}
}

func TestARunThatTheProcessAskedForItselfBeginsATrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	w := aWorld(t)
	again, key := make(chan queue.Key), named("traced")
	w.consumeWith(w.connect(), queue.ConsumeOptions{Cluster: "c", Workers: 1, Requeue: again, Handler: func(context.Context, queue.Key) queue.Result {
		return queue.Result{}
	}})
	again <- key
	var hint, run tracetest.SpanStub
	w.until("the run has ended", func(context.Context) error {
		for _, s := range spans.GetSpans() {
			switch {
			case !slices.Contains(s.Attributes, attribute.String("sluice.rollout", key.Name)):
			case s.Name == "hint":
				hint = s
			case s.Name == "run":
				run = s
				return nil
			}
		}
		return errors.New("no span of it")
	})
	if !hint.SpanContext.IsValid() || run.Parent.SpanID() != hint.SpanContext.SpanID() {
		t.Errorf("the run continues %v, not the hint %v", run.Parent, hint.SpanContext)
	}
}
