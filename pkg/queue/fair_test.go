package queue_test

import (
	"context"
	"fmt"
	"testing"

	"sluice.dev/sluice/pkg/queue"
)

// A namespace floods the queue and keeps every worker busy for ever. It does not delay another namespace in the stream,
// where all its hints come first, nor in the process.
func TestAQuietNamespaceDoesNotWaitForANoisyOne(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	for i := range 500 {
		w.hint(q, queue.Key{Cluster: "c", Namespace: "noisy", Name: fmt.Sprintf("x%d", i)})
	}
	const workers = 4
	noisy, quiet, goOn := make(chan struct{}, 1000), make(chan queue.Key, 10), make(chan struct{})
	w.consume(q, "c", workers, func(_ context.Context, k queue.Key) queue.Result {
		if k.Namespace == "noisy" {
			noisy <- struct{}{}
			<-goOn
		} else {
			quiet <- k
		}
		return queue.Result{}
	})
	for range workers {
		receive(w, "a noisy run", noisy)
	}
	for _, namespace := range []string{"quiet", "shop", "quiet"} {
		k := queue.Key{Cluster: "c", Namespace: namespace, Name: "x"}
		w.hint(q, k)
		if got := receive(w, "the quiet one's run", quiet); got != k {
			t.Errorf("%s ran", got)
		}
	}
	if n := len(noisy); n > 0 {
		t.Errorf("%d more noisy runs than there are workers", n)
	}
	close(goOn)
	w.settled()
}
