package scenario

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// A hint that kills every executor that takes it is reported on the Rollout, where the owner looks.
func TestADeadLetterIsAnEventOnItsRollout(t *testing.T) {
	t.Parallel()
	w := world.Bare(t, world.Options{})
	ns := w.Namespace(t)
	w.Apply(t, ns, shortGrace(t))
	q, err := w.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	key := queue.Key{Cluster: "default", Namespace: ns, Name: "rollouts-demo"}

	stop, err := w.Executor(t.Context()) // it creates the consumer
	if err != nil {
		t.Fatal(err)
	}
	hint(t, q, key)
	w.Await(t, ns, key.Name, world.HeldFor(rollout.ReasonWorkloadMissing))
	stop()
	hint(t, q, key)
	dieOf(t, w, "executor-default", 19)
	w.Begin(t, w.Executor)

	told := firstEvent(t, w, ns, "involvedObject.kind=Rollout,involvedObject.name=rollouts-demo,reason=DeadLetter")
	want := "Warning: Work on this Rollout is left alone until it changes: no process that took it up finished a run of it: each one died, hung or lost NATS meanwhile. " +
		"Look for crashes in the executors' logs, and then retry it, with: sluice dlq retry rollouts-demo -n " + ns
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("what the Event says (-want +got):\n%s", diff)
	}
}

// firstEvent waits for a Kubernetes Event that a selector matches.
func firstEvent(t *testing.T, w *world.World, ns, selector string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	events, err := controlplane.Watch(ctx, w.Client(t, ns, "event"), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok {
			return fmt.Sprintf("%s: %s", u.Object["type"], u.Object["message"])
		}
	}
	t.Fatalf("there is no Event with %s", selector)
	return ""
}

func hint(t *testing.T, q *queue.Queue, key queue.Key) {
	t.Helper()
	if err := q.PublishHint(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// dieOf takes the next hint a number of times without an answer, like executors that die of it.
func dieOf(t *testing.T, w *world.World, consumer string, times int) {
	t.Helper()
	js := w.JetStream(t)
	c, err := js.Consumer(context.WithoutCancel(t.Context()), queue.StreamWork, consumer)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		m, err := c.Next()
		if err == nil {
			err = m.Nak() // NATS would notice by itself 6 s later
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
