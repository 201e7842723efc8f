package queue_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// before returns the stream of work as it was before measurements existed.
func before() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: queue.StreamWork, Description: "Hints to look at a rollout, and its timer", Subjects: []string{"sluice.work.>", "sluice.timer.>"}, Replicas: 1,
		Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld,
		AllowMsgSchedules: true, AllowRollup: true,
	}
}

func TestAStreamOfAnOlderVersionTakesMeasurementsInAndKeepsWhatItHas(t *testing.T) {
	w := aWorld(t)
	old, err := w.admin.CreateStream(t.Context(), before())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "executor-c", FilterSubject: "sluice.work.c.>", AckPolicy: jetstream.AckExplicitPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.Publish(t.Context(), named("x").WorkSubject(), nil); err != nil {
		t.Fatal(err)
	}
	q := w.connect()
	now, err := w.admin.Stream(t.Context(), queue.StreamWork)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sluice.work.>", "sluice.timer.>", "sluice.measure.>", "sluice.tick.>", "sluice.fleet.work.>", "sluice.fleet.timer.>"}, now.CachedInfo().Config.Subjects); diff != "" {
		t.Errorf("what it takes in (-want +got):\n%s", diff)
	}
	if !now.CachedInfo().Created.Equal(old.CachedInfo().Created) {
		t.Error("it is another stream")
	}
	ran := make(chan queue.Key, 10)
	handle := func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} }
	w.consume(q, "c", 1, handle)
	if diff := cmp.Diff(named("x"), receive(w, "the old hint", ran)); diff != "" {
		t.Error(diff)
	}
	w.analyze(q, handle)
	w.hint(q, measuring("x"))
	if diff := cmp.Diff(measuring("x"), receive(w, "a measurement", ran)); diff != "" {
		t.Error(diff)
	}
	w.settled()
}

// During a rolling update of the components, an old one may start after a new one.
func TestAnOlderVersionThatStartsLaterDoesNotEndMeasurements(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	if _, err := w.admin.UpdateStream(t.Context(), before()); err != nil {
		t.Fatal(err)
	}
	w.hint(q, measuring("x"))
	ran := make(chan queue.Key, 10)
	w.analyze(q, func(_ context.Context, k queue.Key) queue.Result { ran <- k; return queue.Result{} })
	if diff := cmp.Diff(measuring("x"), receive(w, "a measurement", ran)); diff != "" {
		t.Error(diff)
	}
}
