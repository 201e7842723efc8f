package executor_test

import (
	"context"
	"testing"

	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/test/world"
)

// Nobody hints: no watcher runs, as if each hint had been taken by a process that died before its watches showed what it was about.
func TestAnExecutorThatBeginsFindsWhatOthersHaveLeftUndone(t *testing.T) {
	t.Parallel()
	w := world.Bare(t, world.Options{})
	ns := w.Namespace(t)
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	app := world.App{Name: "app", Replicas: 3, Steps: []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 3, Weight: 50}}}
	if err := app.Create(t.Context(), client, ns); err != nil {
		t.Fatal(err)
	}
	for _, undone := range []struct {
		what string
		do   func()
		want world.Goal
	}{
		{"a Rollout that nobody has seen", func() {}, world.Healthy},
		{"a change that is held", func() { w.Do(t, "-n", ns, "set", "image", "deployment/app", "c=app:2") }, world.PausedAt(1)},
		{"an approval", func() {
			w.Do(t, "-n", ns, "patch", "rollout", "app", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
		}, world.PausedAt(2)},
	} {
		undone.do()
		stop, err := w.RunExecutor(context.WithoutCancel(t.Context()), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(undone.what)
		w.Await(t, ns, "app", undone.want)
		stop()
	}
}
