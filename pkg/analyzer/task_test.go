package analyzer

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
)

const (
	pass    = analysis.OutcomePass
	fail    = analysis.OutcomeFail
	nothing = analysis.OutcomeNoData
	broken  = analysis.OutcomeError
	between = analysis.OutcomeInconclusive
)

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	slow := func(d *api.Metric) { d.Prometheus.Query = "rate(up[5m])" }
	for name, c := range map[string]struct {
		task  *task
		after time.Duration
		due   []int
		next  bool
	}{
		"nothing at once: the first time comes within an interval":     {aTask(aMetric(t, "a")), 0, nil, true},
		"every metric whose time has come":                             {aTask(aMetric(t, "a"), aMetric(t, "b")), 30 * time.Second, []int{0, 1}, false},
		"not one that would look back at other traffic":                {aTask(aMetric(t, "a"), aMetric(t, "b", slow)), 30 * time.Second, []int{0}, true},
		"one whose window has passed":                                  {aTask(aMetric(t, "b", slow)), 331 * time.Second, []int{0}, false},
		"not one that was measured for that time":                      {aTask(aMetric(t, "a")).outcomes(0, pass), 30 * time.Second, nil, true},
		"not one that has ended":                                       {aTask(aMetric(t, "a"), aMetric(t, "b")).outcomes(0, pass, pass, pass), 10 * time.Minute, []int{1}, false},
		"nothing of a run that has failed":                             {aTask(aMetric(t, "a"), aMetric(t, "b")).outcomes(0, fail), 10 * time.Minute, nil, false},
		"the rest of a run of which one metric asks a person":          {aTask(aMetric(t, "a"), aMetric(t, "b")).outcomes(0, between, between), 10 * time.Minute, []int{1}, false},
		"the rest of a run of which a metric failed that only watches": {aTask(aMetric(t, "a", dry), aMetric(t, "b")).outcomes(0, fail), 10 * time.Minute, []int{1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, next := c.task.dueMeasurements(noon().Add(c.after))
			var due []int
			for _, d := range list {
				due = append(due, d.metric)
			}
			if diff := cmp.Diff(c.due, due); diff != "" {
				t.Error(diff)
			}
			if next.IsZero() == c.next || c.next && !next.After(noon().Add(c.after)) {
				t.Errorf("the next is due at %s", next)
			}
		})
	}
}

func dry(d *api.Metric) { d.DryRun = true }

func TestWhatCannotBeMeasuredIsNotDue(t *testing.T) {
	t.Parallel()
	task := aTask(aMetric(t, "a"))
	task.run.Problem = "Its templates[0].name names AnalysisTemplate/rates, which does not exist."
	if list, next := task.dueMeasurements(noon().Add(time.Hour)); len(list) > 0 || !next.IsZero() {
		t.Errorf("due are %v, next %s", list, next)
	}
	if at, want := nextWake(asTasks(task), noon(), defaultProblemRetry), noon().Add(-5*time.Minute+30*time.Second); !at.Equal(want) {
		t.Errorf("it is looked at again at %s, want %s", at, want)
	}
}

func TestARunGoesOnWithItsSums(t *testing.T) {
	t.Parallel()
	before := aTask(aMetric(t, "a"), aMetric(t, "b")).outcomes(0, pass, pass).outcomes(1, between)
	data, err := before.encodeSums()
	if err != nil {
		t.Fatal(err)
	}
	after := &task{uid: "6f1c", run: aRun(aMetric(t, "a"), aMetric(t, "b"))}
	after.loadStates(data, 5)
	if diff := cmp.Diff(before.states, after.states); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"6f1c.3.7.step", uint64(5), false}, []any{after.sumsKey(), after.revision, after.sumsLost}); diff != "" {
		t.Error(diff)
	}
}

func TestWhatBeginsAnew(t *testing.T) {
	t.Parallel()
	stored, err := aTask(aMetric(t, "a"), aMetric(t, "b")).outcomes(0, pass, pass).outcomes(1, pass).encodeSums()
	if err != nil {
		t.Fatal(err)
	}
	edited := aMetric(t, "a")
	edited.Digest = "d2"
	for name, c := range map[string]struct {
		metrics  []int
		edited   bool
		data     string
		revision uint64
		measured bool
		passed   []int32
		lost     bool
	}{
		"nothing":                              {data: string(stored), revision: 1, measured: true, passed: []int32{2, 1}},
		"a metric that was edited":             {edited: true, data: string(stored), revision: 1, measured: true, passed: []int32{0, 1}},
		"all, when nothing was measured yet":   {passed: []int32{0, 0}},
		"all, when the sums are lost":          {measured: true, passed: []int32{0, 0}, lost: true},
		"all, when the sums are garbage":       {data: "{", revision: 4, measured: true, passed: []int32{0, 0}, lost: true},
		"all, of sums of a later version":      {data: `{"version":2,"metrics":{"x":1}}`, revision: 4, measured: true, passed: []int32{0, 0}, lost: true},
		"all, of states of another version":    {data: `{"version":1,"metrics":{"x":{"version":9}}}`, revision: 4, measured: true, passed: []int32{0, 0}},
		"all, of garbage before the first one": {data: "{", revision: 4, passed: []int32{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &task{uid: "6f1c", run: aRun(aMetric(t, "a"), aMetric(t, "b"))}
			if c.edited {
				task.run.Metrics[0] = edited
			}
			if c.measured {
				task.run.Record.Metrics = []api.MetricStatus{{Name: "a", Passed: 2}}
			}
			task.loadStates([]byte(c.data), c.revision)
			var passed []int32
			for _, s := range task.states {
				passed = append(passed, s.Passed)
			}
			if diff := cmp.Diff([]any{c.passed, c.lost, c.revision}, []any{passed, task.sumsLost, task.revision}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// NATS drops an event whose id it has stored. A measurement of an edited metric may have the same time as one before the edit.
func TestWhatAnEditedMetricSaysIsAnotherEvent(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, digest := range []string{"d1", "d2"} {
		metric := aMetric(t, "a")
		metric.Digest = digest
		task := aTask(metric)
		view := &kube.AnalysisView{Rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "6f1c"}}}
		a := &Analyzer{Options: Options{ClusterName: "eu-1", Clock: noon}}
		measured, err := a.measuredEvent(view, task, countedMeasurement{metric: metric, verdict: analysis.Verdict{Measured: analysis.Measurement{At: noon()}}})
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := a.verdictEvent(view, task, api.AnalysisRun{Phase: api.AnalysisFailed})
		if err != nil {
			t.Fatal(err)
		}
		ids[measured.ID()], ids[verdict.ID()] = true, true
	}
	if len(ids) != 4 {
		t.Errorf("the ids are %v, want four", slices.Sorted(maps.Keys(ids)))
	}
}

// Measurements before a traffic change stay, and later measurements ignore the traffic before the change.
func TestARunOfTheWholeReleaseGoesOnAfterTheTrafficChanged(t *testing.T) {
	t.Parallel()
	stored, err := aTask(aMetric(t, "a")).outcomes(0, pass, pass).encodeSums()
	if err != nil {
		t.Fatal(err)
	}
	routed := noon().Add(10 * time.Minute)
	task := &task{uid: "6f1c", run: aRun(aMetric(t, "a", func(d *api.Metric) { d.Prometheus.Query = "rate(up[1m])" }))}
	task.run.Record.RoutedAt = micro(routed)
	task.loadStates(stored, 1)
	if list, next := task.dueMeasurements(routed); len(list) > 0 || next.Before(routed.Add(time.Minute)) {
		t.Errorf("due are %v, next %s", list, next)
	}
	if got := task.states[0].Passed; got != 2 {
		t.Errorf("%d measurements are left of 2", got)
	}
}

func TestWhenARunIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	shown := aTask(aMetric(t, "a")).outcomes(0, pass).isShown(noon().Add(30 * time.Second))
	_, next := shown.dueMeasurements(noon().Add(30 * time.Second))
	if got := nextWake([]*task{shown}, noon().Add(30*time.Second), defaultProblemRetry); !got.Equal(next) {
		t.Errorf("got %s, want the next measurement at %s", got, next)
	}
	daily := aTask(aMetric(t, "a", func(d *api.Metric) { d.Interval, d.Count = "24h", 0 })).isShown(noon())
	if got, want := nextWake([]*task{daily}, noon(), defaultProblemRetry), noon().Add(48*time.Hour); got.After(want) || !got.After(noon()) {
		t.Errorf("got %s", got)
	}
	over := aTask(aMetric(t, "a")).outcomes(0, fail).isShown(noon().Add(time.Minute))
	if got := nextWake([]*task{over}, noon().Add(time.Minute), defaultProblemRetry); !got.IsZero() {
		t.Errorf("what is over is looked at again at %s", got)
	}
	if got := nextWake([]*task{over, shown}, noon().Add(30*time.Second), defaultProblemRetry); !got.Equal(next) {
		t.Errorf("of two runs the one that goes on decides: got %s, want %s", got, next)
	}
}

func asTasks(list ...*task) []*task { return list }
