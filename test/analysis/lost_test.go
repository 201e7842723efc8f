package analysis

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// What NATS has lost is measured again, and the release waits for it. The world is this test's own: others would lose their sums too.
func TestALostBucketBeginsTheAnalysisAnew(t *testing.T) {
	t.Parallel()
	w := world.ForTest(t, world.Options{})
	stop, err := w.RunAnalyzer(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l := aLiar(t)
	p := plan{templates: []string{success}, provider: l.URL}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := startIn(t, w, p)
	a.deploy(t, "2")
	a.await(t, func(r *api.Rollout) bool { return measured(r) && r.Status.Analysis.Step.Metrics[0].Passed > 0 })
	js := w.JetStream(t)
	if err := js.DeleteKeyValue(t.Context(), "sluice_analysis"); err != nil {
		t.Fatal(err)
	}
	before := l.asked.Load()
	r := a.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == 1 })
	const queries = 2 // of a measurement
	if m, since := r.Status.Analysis.Step.Metrics[0], l.asked.Load()-before; m.Passed != 3 || since < 3*queries {
		t.Errorf("%d queries were made since the loss, and the metric is %+v; want three measurements", since, m)
	}
}

func measured(r *api.Rollout) bool {
	return r.Status.Analysis != nil && r.Status.Analysis.Step != nil && len(r.Status.Analysis.Step.Metrics) > 0
}
