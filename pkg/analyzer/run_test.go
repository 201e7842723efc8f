package analyzer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/prometheus"
	"sluice.dev/sluice/test/world"
)

func replace(text, from, to string) string { return strings.ReplaceAll(text, from, to) }

// says is the goal that the analysis of the step shows a phase.
func says(phase api.AnalysisPhase) world.Goal {
	return func(r *api.Rollout) bool { return r.Status.Analysis.Step.Phase == phase }
}

// begins publishes a hint about the release to the analyzer.
func (r *release) begins() {
	r.t.Helper()
	shared.measuring.Do(func() { shared.stop, shared.measuringErr = r.RunAnalyzer(context.Background(), r.hosts()) })
	if shared.measuringErr != nil {
		r.t.Fatal(shared.measuringErr)
	}
	r.hint()
}

func (r *release) hint() {
	r.t.Helper()
	if err := r.queue.PublishHint(r.t.Context(), r.key()); err != nil {
		r.t.Fatal(err)
	}
}

func TestAGoodCanaryPasses(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 3)
	r.begins()
	got := r.Await(t, r.namespace, "shop", says(api.AnalysisPassed)).Status.Analysis.Step
	m := got.Metrics[0]
	if diff := cmp.Diff([]any{int32(3), "1", "AnalysisTemplate/success", true}, []any{m.Passed, m.LastValue, m.Template, got.EndedAt != nil}); diff != "" {
		t.Error(diff)
	}
	if n := r.measured() - unanswered(m); n != 3 {
		t.Errorf("%d measurements were told of", n)
	}
	if n := r.verdicts(m); n != 1 {
		t.Errorf("%d verdicts were told of", n)
	}
}

func TestABadCanaryFailsAtOnce(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 100)
	r.begins()
	r.Await(t, r.namespace, "shop", func(o *api.Rollout) bool { return len(o.Status.Analysis.Step.Metrics) > 0 })
	r.app.success.Store("0.9")
	r.scraped()
	bad := time.Now()
	got := r.Await(t, r.namespace, "shop", says(api.AnalysisFailed)).Status.Analysis.Step
	t.Logf("it took %s from the first scrape", time.Since(bad))
	if want := "Metric success of AnalysisTemplate/success: 1 measurement failed, and 0 may. The value 0.9 fails: value < 0.95."; got.Message != want || got.EndedAt == nil {
		t.Errorf("it says %q", got.Message)
	}
	value := 0.9
	want := event.Measured{
		Analysis: r.about(), Template: "AnalysisTemplate/success", Metric: "success", Address: r.prometheus.Address, Queries: event.Queries{Value: "success"},
		Value: &value, Values: []float64{0.9}, Outcome: "fail", Phase: "Failed", Reason: "fail", Message: "The value 0.9 fails: value < 0.95.",
	}
	if diff := cmp.Diff(want, r.measurement("fail")); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
}

// While Prometheus is away, the metric neither passes nor fails. When Prometheus is back, the release continues by itself.
func TestWithoutAPrometheusTheReleaseIsHeld(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 3)
	dir := t.TempDir()
	away := prometheus.ForTest(t, prometheus.Options{Dir: dir, Interval: 100 * time.Millisecond})
	if err := away.Scrape(prometheus.Target{Address: r.app.address}); err != nil {
		t.Fatal(err)
	}
	if err := away.Stop(); err != nil {
		t.Fatal(err)
	}
	r.prometheus = away
	r.apply(3)
	r.begins()
	held := r.Await(t, r.namespace, "shop", says(api.AnalysisWaiting)).Status.Analysis.Step
	if !strings.Contains(held.Message, "Waiting for an answer") || !strings.Contains(held.Message, "cannot be reached") {
		t.Errorf("it says %q", held.Message)
	}
	// The analyzer may have measured for the same time with the earlier address; NATS then keeps only the event of that measurement.
	told := r.measurement("error")
	for end := time.Now().Add(10 * time.Minute); told.Outcome == "" && time.Now().Before(end); told = r.measurement("error") {
		time.Sleep(50 * time.Millisecond)
	}
	if diff := cmp.Diff([]string{"Hold", "Waiting"}, []string{told.Policy, told.Phase}); diff != "" || told.Reason != "unreachable" && told.Reason != "rested" {
		t.Errorf("the event is %+v", told)
	}
	prometheus.ForTest(t, prometheus.Options{Dir: dir, Interval: 100 * time.Millisecond, Listen: strings.TrimPrefix(away.Address, "http://")})
	got := r.Await(t, r.namespace, "shop", says(api.AnalysisPassed)).Status.Analysis.Step.Metrics[0]
	if got.Passed != 3 || got.Errors == 0 || got.Failed != 0 {
		t.Errorf("the counts are %+v", got)
	}
}

// A missing template holds the release. Its creation alone is enough for the release to continue.
func TestAMissingTemplateHoldsUntilItIsThere(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 3)
	r.Do(t, "-n", r.namespace, "delete", "analysistemplate", "success")
	r.begins()
	held := r.Await(t, r.namespace, "shop", says(api.AnalysisWaiting)).Status.Analysis.Step
	if want := "names AnalysisTemplate/success, which does not exist in namespace " + r.namespace; !strings.Contains(held.Message, want) {
		t.Errorf("it says %q", held.Message)
	}
	r.apply(3)
	r.Await(t, r.namespace, "shop", says(api.AnalysisPassed))
}

func TestLostSumsBeginAnew(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 4)
	a := r.analyzer()
	for range 3 {
		r.handled(a)
	}
	// The entry of another run stays unchanged, because other tests have their own entries.
	r.analysed(func(run *api.AnalysisRun) {
		run.PauseSeq = 2 // no sums are stored for this pause
		run.Metrics = []api.MetricStatus{{Name: "success", Template: "AnalysisTemplate/success", Phase: api.MetricRunning, Passed: 3}}
	})
	r.handled(a)
	lost := r.run()
	if !strings.Contains(lost.Message, "is lost") && lost.Metrics[0].Passed > 1 || lost.Phase != api.AnalysisRunning {
		t.Errorf("it shows %+v", lost)
	}
	r.until(a, api.AnalysisPassed)
	if got := r.run().Metrics[0].Passed; got != 4 {
		t.Errorf("%d measurements passed", got)
	}
}

// handled makes one run, and then moves the clock to the time of the next run.
func (r *release) handled(a interface {
	Handle(context.Context, queue.Key) queue.Result
}) queue.Result {
	r.t.Helper()
	result := a.Handle(r.t.Context(), r.key())
	if result.Err == nil && !result.WakeAt.IsZero() && result.WakeAt.After(*r.now.Load()) {
		r.later(result.WakeAt)
	}
	return result
}

// until handles the release until its status shows a phase.
func (r *release) until(a interface {
	Handle(context.Context, queue.Key) queue.Result
}, phase api.AnalysisPhase) {
	r.t.Helper()
	for range 100 {
		if r.run().Phase == phase {
			return
		}
		if result := r.handled(a); result.Err != nil {
			r.t.Fatal(result.Err)
		}
	}
	r.t.Fatalf("it shows %+v", r.run())
}
