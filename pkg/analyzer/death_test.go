package analyzer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/kube"
)

var errKilled = errors.New("the process was killed")

// mortal stops the analyzer right after a request.
type mortal struct {
	analyzer.Store
	after string
}

func (m mortal) PublishEvent(ctx context.Context, e event.Event) error {
	return m.dying("event", m.Store.PublishEvent(ctx, e))
}

func (m mortal) SaveSums(ctx context.Context, run string, data []byte, revision uint64) (uint64, error) {
	revision, err := m.Store.SaveSums(ctx, run, data, revision)
	return revision, m.dying("sums", err)
}

func (m mortal) dying(after string, err error) error {
	if m.after == after {
		return errKilled
	}
	return err
}

type mortalKube struct {
	analyzer.Kube
	after string
}

func (m mortalKube) WriteRuns(ctx context.Context, v *kube.AnalysisView, step, release *api.AnalysisRun) error {
	err := m.Kube.WriteRuns(ctx, v, step, release)
	if m.after == "status" {
		return errKilled
	}
	return err
}

// An analyzer that dies at some point makes every second run of the release. The verdict equals the verdict without deaths.
func TestADeathAnywhereChangesNoVerdict(t *testing.T) {
	t.Parallel()
	const count = 4
	for _, after := range []string{"nothing", "event", "sums", "status"} {
		for phase, value := range map[api.AnalysisPhase]string{api.AnalysisPassed: "1", api.AnalysisFailed: "0.5"} {
			t.Run(after+" "+string(phase), func(t *testing.T) {
				t.Parallel()
				r := aRelease(t, count)
				r.app.success.Store(value)
				r.scraped()
				mortals := r.analyzer()
				mortals.Through(func(k analyzer.Kube) analyzer.Kube { return mortalKube{k, after} }, func(s analyzer.Store) analyzer.Store { return mortal{s, after} })
				healthy, deaths := r.analyzer(), 0
				for range 10 * count {
					if errors.Is(r.handled(mortals).Err, errKilled) {
						deaths++
					}
					if result := r.handled(healthy); result.Err != nil {
						t.Fatal(result.Err)
					}
				}
				run := r.run()
				want := []any{phase, int32(count), int32(0), count, true, 1}
				if phase == api.AnalysisFailed {
					want = []any{phase, int32(0), int32(1), 1, true, 1}
				}
				m := run.Metrics[0]
				if diff := cmp.Diff(want, []any{run.Phase, m.Passed, m.Failed, r.measured() - unanswered(m), run.EndedAt != nil, r.verdicts(m)}); diff != "" {
					t.Error(diff)
				}
				if (deaths > 0) != (after != "nothing") {
					t.Errorf("%d died", deaths)
				}
			})
		}
	}
}

// unanswered returns the number of measurements that Prometheus did not answer, on a busy machine. They are reported and decide nothing.
func unanswered(m api.MetricStatus) int { return int(m.Errors + m.NoData) }

func TestTwoAnalyzersCountNoMeasurementTwice(t *testing.T) {
	t.Parallel()
	const count = 12
	r := aRelease(t, count)
	one, other := r.analyzer(), r.analyzer()
	for range 5 * count {
		var both sync.WaitGroup
		both.Go(func() { one.Handle(t.Context(), r.key()) })
		result := other.Handle(t.Context(), r.key())
		both.Wait()
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if result.WakeAt.IsZero() {
			break
		}
		if result.WakeAt.After(*r.now.Load()) {
			r.later(result.WakeAt)
		}
	}
	run := r.run()
	if diff := cmp.Diff([]any{api.AnalysisPassed, int32(count), count}, []any{run.Phase, run.Metrics[0].Passed, r.measured() - unanswered(run.Metrics[0])}); diff != "" {
		t.Error(diff)
	}
}

// slow changes the cluster between the observation and the write.
type slow struct {
	analyzer.Kube
	meanwhile func()
}

func (s slow) ObserveRuns(ctx context.Context, name types.NamespacedName, live bool) (*kube.AnalysisView, error) {
	v, err := s.Kube.ObserveRuns(ctx, name, live)
	s.meanwhile()
	return v, err
}

func TestAnAnalyzerThatIsLateWritesNothing(t *testing.T) {
	t.Parallel()
	r := aRelease(t, 3)
	a := r.analyzer()
	var once sync.Once
	a.Through(func(k analyzer.Kube) analyzer.Kube {
		return slow{k, func() {
			once.Do(func() { r.status(func(s *api.RolloutStatus) { s.Sluice.State, s.Sluice.PauseSeq = "StepUpgrade", 2 }) })
		}}
	}, nil)
	before := r.run()
	result := a.Handle(t.Context(), r.key())
	if result.Err != nil || !result.WakeAt.IsZero() {
		t.Errorf("it ends in %+v", result)
	}
	if diff := cmp.Diff(before, r.run()); diff != "" {
		t.Error(diff)
	}
}
