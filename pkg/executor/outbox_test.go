package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// lab is a NATS server separate from the server of the world. A test can start its own runs and read the events that they publish.
type lab struct {
	*testing.T
	server *embedded.Server
}

func newLab(t *testing.T) *lab {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &lab{t, s}
}

// executor returns a process that has just started.
func (l *lab) executor() *executor.Executor {
	l.Helper()
	return l.executorAs(shared.As(api.DefaultExecutor))
}

// executorAs returns a process that uses the API server with the test's own config.
func (l *lab) executorAs(config *rest.Config) *executor.Executor {
	l.Helper()
	log := slog.New(slog.DiscardHandler)
	q, err := queue.Connect(l.Context(), queue.Options{URL: l.server.URL(), User: l.server.User(), Password: l.server.Password(), Name: "lab", Logger: log})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(q.Close)
	kube, err := kube.New(config, kube.Options{Scripts: script.NewLibrary(luaconfiguration.FS, ""),
		ScriptConfigMap: types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap}, Logger: log})
	if err != nil {
		l.Fatal(err)
	}
	return executor.New(executor.Options{ClusterName: "lab", Kube: kube, Queue: q, Workers: 1, Logger: log})
}

// published returns the ids and types of the events so far, in order.
func (l *lab) published() (list []string) {
	l.Helper()
	nc, err := nats.Connect(l.server.URL(), nats.UserInfo(l.server.User(), l.server.Password()))
	if err != nil {
		l.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		l.Fatal(err)
	}
	stream, err := js.Stream(l.Context(), queue.StreamEvents)
	if err != nil {
		l.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(l.Context(), seq)
		if err != nil {
			l.Fatal(err)
		}
		e, err := event.Decode(m.Header, m.Data)
		if err != nil {
			l.Fatal(err)
		}
		list = append(list, e.ID()+" "+e.Type())
	}
	return list
}

// pausedRelease returns a release of the world that is paused in its first step.
func pausedRelease(t *testing.T) (w *world.World, ns string, r *api.Rollout) {
	t.Helper()
	w = theWorld(t)
	ns = w.Namespace(t)
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "rollout.yaml"} {
		w.Apply(t, ns, world.Seed(t, "istio-walkthrough/"+file))
	}
	w.Available(t, ns, "workload-demo")
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	if err := w.Patch(t, ns, "deployment", "workload-demo", newVersion); err != nil {
		t.Fatal(err)
	}
	return w, ns, w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
}

func TestEveryTransitionIsPublishedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	_, ns, r := pausedRelease(t)
	l := newLab(t)
	key := queue.Key{Cluster: "lab", Namespace: ns, Name: "rollouts-demo"}
	var want []string
	types := []string{"rollout.started", "step.started", "step.upgrading", "step.upgraded", "traffic.routed", "step.paused"}
	for i, kind := range types {
		want = append(want, fmt.Sprintf("%s/%d dev.sluice.%s.v1", r.UID, i+1, kind))
	}
	first := l.executor()
	for range 2 {
		if result := first.Handle(t.Context(), key); result.Err != nil {
			t.Fatal(result.Err)
		}
		if diff := cmp.Diff(want, l.published()); diff != "" {
			t.Errorf("the events (-want +got):\n%s", diff)
		}
	}
	// A process that has just started has no memory, and publishes all events again under the same ids.
	if result := l.executor().Handle(t.Context(), key); result.Err != nil {
		t.Fatal(result.Err)
	}
	if diff := cmp.Diff(want, l.published()); diff != "" {
		t.Errorf("the events after a restart (-want +got):\n%s", diff)
	}
}

func TestWithoutNATSNothingIsWrittenOverTheOutbox(t *testing.T) {
	t.Parallel()
	w, ns, r := pausedRelease(t)
	l := newLab(t)
	e := l.executor()
	l.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	key := queue.Key{Cluster: "lab", Namespace: ns, Name: "rollouts-demo"}
	if result := e.Handle(ctx, key); result.Err == nil {
		t.Error("the run says that all is well")
	}
	after := w.Get(t, ns, "rollout", "rollouts-demo")
	if got := after.GetResourceVersion(); got != r.ResourceVersion {
		t.Errorf("the Rollout was written: %v", after.Object["status"])
	}
}

// An executor that has just started finds the commit of another process, and cannot know whether that process published it.
func TestAHoldThatWasCommittedIsPublishedByTheNext(t *testing.T) {
	t.Parallel()
	w, ns, _ := pausedRelease(t)
	w.Do(t, "delete", "service", "service-demo", "-n", ns)
	r := w.Await(t, ns, "rollouts-demo", world.HeldFor(rollout.ReasonServiceMissing))
	l := newLab(t)
	want := fmt.Sprintf("%s/%d dev.sluice.failure.raised.v1", r.UID, r.Status.Sluice.TransitionSeq)
	for _, who := range []string{"the next", "the one after that"} {
		if result := l.executor().Handle(t.Context(), queue.Key{Cluster: "lab", Namespace: ns, Name: "rollouts-demo"}); result.Err != nil {
			t.Fatal(result.Err)
		}
		if list := l.published(); len(list) != len(r.Status.Sluice.Transitions) || list[len(list)-1] != want {
			t.Errorf("%s publishes %q, want %d events, the last of them %q", who, list, len(r.Status.Sluice.Transitions), want)
		}
	}
}
