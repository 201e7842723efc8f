package analysis

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// Two analyzers run in addition to the analyzers of the shared world. The test ends and starts them repeatedly, at any
// point of their work.
func TestAnalyzersThatComeAndGoChangeNoVerdict(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ctx, cancel := context.WithCancel(t.Context())
	var restless sync.WaitGroup
	for range 2 {
		restless.Go(func() {
			for ctx.Err() == nil {
				stop, err := w.RunAnalyzer(ctx, "127.0.0.1")
				if err != nil {
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(100+rand.IntN(400)) * time.Millisecond):
				}
				stop()
			}
		})
	}
	t.Cleanup(func() { cancel(); restless.Wait() })
	t.Run("a comparison learns from the hours before, and stops a bad version", func(t *testing.T) {
		t.Parallel()
		learns(t, 6, func(int) float64 { return 0.01 }, 0.2).await(t, aborted)
	})
	for name, c := range map[string]struct {
		canary group
		goal   world.Goal
		failed int32
	}{
		"a good version goes on":   {group{}, world.Healthy, 0},
		"a bad version is stopped": {group{bad: 0.5}, aborted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan{templates: []string{success}}
			p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
			a := start(t, p)
			a.becomes(c.canary)
			a.deploy(t, "2")
			r := a.await(t, func(r *api.Rollout) bool { return r.Status.Sluice.Epoch == 1 && c.goal(r) })
			m := r.Status.Analysis.Step.Metrics[0]
			if m.Failed != c.failed || c.failed == 0 && m.Passed != 3 {
				t.Errorf("the metric is %+v", m)
			}
		})
	}
}
