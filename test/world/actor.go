package world

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Way is one of the ways in which a GitOps tool writes a manifest from its repository. It returns a function that
// writes the manifest once.
type Way func(w *World, client dynamic.ResourceInterface, manifest *unstructured.Unstructured) (func(context.Context) error, error)

// Ways returns all ways by name.
func Ways() map[string]Way {
	return map[string]Way{"client side apply": clientSide, "server side apply": serverSide, "replace": replace}
}

func clientSide(w *World, _ dynamic.ResourceInterface, manifest *unstructured.Unstructured) (func(context.Context) error, error) {
	text, err := json.Marshal(manifest.Object)
	return func(ctx context.Context) error {
		// Without --openapi-patch=false, each command reads the schemas of all kinds again, to send the same patch.
		_, err := w.KubectlStdin(ctx, string(text), "apply", "-n", manifest.GetNamespace(), "--openapi-patch=false", "-f", "-")
		return err
	}, err
}

func serverSide(_ *World, client dynamic.ResourceInterface, manifest *unstructured.Unstructured) (func(context.Context) error, error) {
	text, err := json.Marshal(manifest.Object)
	force := true
	return func(ctx context.Context) error {
		_, err := client.Patch(ctx, manifest.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "gitops", Force: &force})
		return err
	}, err
}

// replace sends the resource version that it replaces, as kubectl does. The API server replaces custom resources only
// with one.
func replace(_ *World, client dynamic.ResourceInterface, manifest *unstructured.Unstructured) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		now, err := client.Get(ctx, manifest.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		u := manifest.DeepCopy()
		u.SetResourceVersion(now.GetResourceVersion())
		_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: "gitops"})
		return err
	}, nil
}

// often is the interval between the writes of an actor. A test that waits for rounds gets writes in each moment of a
// step.
const often = time.Second

// Actor writes a manifest repeatedly until it is stopped, as a GitOps tool does.
type Actor struct {
	Stop    func()
	written atomic.Int64
}

// Act starts an actor.
func (w *World) Act(t testing.TB, way Way, client dynamic.ResourceInterface, manifest *unstructured.Unstructured) *Actor {
	t.Helper()
	write, err := way(w, client, manifest)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &Actor{}
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// A write that lost a race is retried at the next tick, as any such tool does.
			if write(ctx) == nil {
				a.written.Add(1)
			}
		}
	})
	a.Stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(a.Stop)
	return a
}

// Rounds waits until the actor has written n more times.
func (a *Actor) Rounds(t testing.TB, n int64) {
	t.Helper()
	ctx := Patient(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := a.written.Load() + n; a.written.Load() < until; {
		select {
		case <-ctx.Done():
			t.Fatal("the GitOps actor stopped writing")
		case <-tick.C:
		}
	}
}
