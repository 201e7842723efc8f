package executor_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// No process publishes hints: no watcher runs. This is as if each hint reached a process that died before its watches showed the change.
func TestAnExecutorThatBeginsFindsWhatOthersHaveLeftUndone(t *testing.T) {
	t.Parallel()
	w := idleWorld(t)
	ns := w.Namespace(t)
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	app := world.App{Name: "app", Replicas: 3, Steps: []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 3, Weight: 50}}}
	if err := app.Create(t.Context(), client, ns); err != nil {
		t.Fatal(err)
	}
	healthy := w.As(api.DefaultExecutor)
	// A record is completed after the end of its release, when no run waits for it.
	recordless := rest.CopyConfig(healthy)
	recordless.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/rollouthistories/") {
				return nil, errors.New("the process died before")
			}
			return next.RoundTrip(r)
		})
	})
	image := func(name string) func() {
		return func() { w.Do(t, "-n", ns, "set", "image", "deployment/app", "c="+name) }
	}
	forget := func() {
		w.Do(t, "--as", api.DefaultInstallation().ExecutorUser(), "--as-group", "system:masters", "-n", ns, "patch", "rollout", "app", "--subresource=status", "--type=merge", "-p", `{"status":{"sluice":{"transitions":null}}}`)
	}
	nothing, approve := func() {}, func() { w.Approve(t, ns, "app") }
	gets := func(goal world.Goal) func() { return func() { w.Await(t, ns, "app", goal) } }
	for _, undone := range []struct {
		what string
		do   func()
		by   *rest.Config
		then func()
	}{
		{"a Rollout that nobody has seen", nothing, healthy, gets(world.Healthy)},
		{"a change that is held", image("app:2"), healthy, gets(world.PausedAt(1))},
		{"an approval", approve, healthy, gets(world.PausedAt(2))},
		{"the last approval", approve, recordless, func() {
			w.Await(t, ns, "app", world.Healthy)
			awaitNoHint(t, w) // an executor that keeps a hint may reconcile again by itself
		}},
		{"the end of a record", nothing, healthy, func() { w.AwaitHistory(t, ns, "app", 1, api.OutcomeCompleted) }},
		{"another change", image("app:3"), healthy, gets(world.PausedAt(1))},
		{"a rollback", image("app:2"), recordless, gets(world.Healthy)},
		{"a record whose end has left the status", func() { forget(); image("app:4")() }, healthy, func() { w.AwaitHistory(t, ns, "app", 2, api.OutcomeCanceled) }},
	} {
		undone.do()
		stop, err := w.RunExecutorAs(context.WithoutCancel(t.Context()), undone.by, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(undone.what)
		undone.then()
		stop()
	}
}

// awaitNoHint waits until no executor has a hint left to follow. No event announces that.
func awaitNoHint(t *testing.T, w *world.World) {
	t.Helper()
	js := w.JetStream(t)
	ctx := world.Patient(t)
	for {
		work, err := js.Stream(ctx, queue.StreamWork)
		if err != nil {
			t.Fatal(err)
		}
		if work.CachedInfo().State.Msgs == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
