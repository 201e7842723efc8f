package hold_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/test/controlplane"
)

const lastWrite = "test.sluice.dev/last-write"

// witness records every stored version of one object.
type witness struct {
	bench    *bench
	name     string
	watch    watch.Interface
	versions []*unstructured.Unstructured
	done     chan struct{}
}

// watchFrom records every version after a given one.
func (b *bench) watchFrom(t testing.TB, from *unstructured.Unstructured) *witness {
	t.Helper()
	watching, err := controlplane.Watch(t.Context(), b.deployments, watchOf(from))
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{bench: b, name: from.GetName(), watch: watching, done: make(chan struct{})}
	go w.look()
	t.Cleanup(func() { watching.Stop(); <-w.done })
	return w
}

func (w *witness) look() {
	defer close(w.done)
	for event := range w.watch.ResultChan() {
		u, is := event.Object.(*unstructured.Unstructured)
		if !is {
			continue
		}
		w.versions = append(w.versions, u)
		if u.GetAnnotations()[lastWrite] != "" {
			return
		}
	}
}

// testify writes once more to mark the end of the versions. It reports every version that runs another image than
// stable without a hold, or has no hold after an earlier one.
func (w *witness) testify(t testing.TB, stable string) []*unstructured.Unstructured {
	t.Helper()
	w.bench.patch(t, w.name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"done"}}}`, lastWrite))
	select {
	case <-w.done:
	case <-time.After(patience):
		t.Fatalf("the watch of %s does not show the last write", w.name)
	}
	if len(w.versions) == 0 || w.versions[len(w.versions)-1].GetAnnotations()[lastWrite] == "" {
		t.Fatalf("the watch of %s ended after %d versions, before the last write", w.name, len(w.versions))
	}
	wasHeld := false
	for _, u := range w.versions {
		if !isHeld(u) && (wasHeld || image(u) != stable) {
			t.Errorf("version %s of %s runs %s with paused %t, labels %v and annotations %v",
				u.GetResourceVersion(), w.name, image(u), paused(u), u.GetLabels(), u.GetAnnotations())
		}
		wasHeld = wasHeld || isHeld(u)
	}
	return w.versions
}
