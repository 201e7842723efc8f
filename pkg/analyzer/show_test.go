package analyzer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	lasting := func(d *api.Metric) { d.Count = 0 }
	type shown struct {
		Phase api.AnalysisPhase
		Worth bool
		Ended bool
	}
	at := noon().Add(2 * time.Minute)
	for name, c := range map[string]struct {
		task *task
		want shown
		says string
	}{
		"a run that is taken up": {aTask(aMetric(t, "a")), shown{api.AnalysisRunning, true, false}, "Metric a of AnalysisTemplate/rates: Nothing has been measured yet."},
		"the first one that passes": {
			aTask(aMetric(t, "a")).isShown(at).outcomes(0, pass), shown{api.AnalysisRunning, true, false}, "Measurement 1 of 3"},
		"one more that passes is not worth a write": {
			aTask(aMetric(t, "a")).outcomes(0, pass).isShown(at).outcomes(0, pass), shown{api.AnalysisRunning, false, false}, "Measurement 2 of 3"},
		"the last one that passes": {
			aTask(aMetric(t, "a")).isShown(at).outcomes(0, pass, pass, pass), shown{api.AnalysisPassed, true, true}, "3 of 3 measurements passed"},
		"all of several": {
			aTask(aMetric(t, "a"), aMetric(t, "b")).isShown(at).outcomes(0, pass, pass, pass).outcomes(1, pass, pass, pass),
			shown{api.AnalysisPassed, true, true}, "All metrics that decide have passed. Metric a"},
		"one of several that passes changes that metric": {
			aTask(aMetric(t, "a"), aMetric(t, "b")).isShown(at).outcomes(0, pass, pass, pass), shown{api.AnalysisRunning, true, false}, "Metric b"},
		"one that fails ends the run, whatever the others say": {
			aTask(aMetric(t, "a"), aMetric(t, "b")).isShown(at).outcomes(1, fail), shown{api.AnalysisFailed, true, true}, "Metric b of AnalysisTemplate/rates: 1 measurement failed"},
		"one that fails and only watches": {
			aTask(aMetric(t, "a", dry), aMetric(t, "b")).isShown(at).outcomes(0, fail), shown{api.AnalysisRunning, true, false}, "Metric b"},
		"nothing to judge":          {aTask(aMetric(t, "a")).isShown(at).outcomes(0, nothing), shown{api.AnalysisWaiting, true, false}, "Waiting for something to judge"},
		"nothing to judge, still":   {aTask(aMetric(t, "a")).outcomes(0, nothing).isShown(at).outcomes(0, nothing), shown{api.AnalysisWaiting, false, false}, "Waiting"},
		"no answer after no data":   {aTask(aMetric(t, "a")).outcomes(0, nothing).isShown(at).outcomes(0, broken), shown{api.AnalysisWaiting, true, false}, "Waiting for an answer"},
		"an answer after none":      {aTask(aMetric(t, "a")).outcomes(0, broken).isShown(at).outcomes(0, pass), shown{api.AnalysisRunning, true, false}, "Measurement 1"},
		"too many that say neither": {aTask(aMetric(t, "a")).isShown(at).outcomes(0, between, between), shown{api.AnalysisInconclusive, true, true}, "approve or roll back"},
		"a metric that lasts": {
			aTask(aMetric(t, "a", lasting)).isShown(at).outcomes(0, pass), shown{api.AnalysisPassing, true, false}, "Nothing that was measured speaks against going on."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, worth := c.task.nextStatus(at)
			if diff := cmp.Diff(c.want, shown{run.Phase, worth, run.EndedAt != nil}); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(run.Message, c.says) {
				t.Errorf("it says %q, want %q", run.Message, c.says)
			}
			if want := at.Add(10 * time.Minute); !run.RenewBy.Time.Equal(want) {
				t.Errorf("it is renewed by %s, want %s", run.RenewBy, want)
			}
			if diff := cmp.Diff("AnalysisTemplate/rates", run.Metrics[0].Template); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARunThatSaysNothingNewIsShownFromTimeToTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interval api.Duration
		after    time.Duration
		want     bool
	}{
		"not before five minutes":                       {"30s", 5*time.Minute - time.Second, false},
		"after five minutes":                            {"30s", 5 * time.Minute, true},
		"not before two intervals, if these are longer": {"10m", 20*time.Minute - time.Second, false},
		"after two intervals, if these are longer":      {"10m", 20 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := aTask(aMetric(t, "a", func(d *api.Metric) { d.Interval, d.Count = c.interval, 100 })).isShown(noon())
			if _, worth := task.nextStatus(noon().Add(c.after)); worth != c.want {
				t.Errorf("worth a write: %v", worth)
			}
			if got, want := task.renewAt(), noon().Add(task.renewalInterval()); !got.Equal(want) {
				t.Errorf("it is to be renewed at %s, want %s", got, want)
			}
		})
	}
}

func TestWhatWasLostIsSaidOnce(t *testing.T) {
	t.Parallel()
	task := aTask(aMetric(t, "a")).outcomes(0, pass, pass).isShown(noon())
	task.states = nil
	task.loadStates(nil, 0)
	run, worth := task.nextStatus(noon())
	if !worth || run.Phase != api.AnalysisRunning || !strings.Contains(run.Message, "are lost") || hasMeasured(&run) {
		t.Errorf("it shows %+v, worth a write: %v", run, worth)
	}
	task.run.Record, task.states = &run, nil
	task.loadStates(nil, 0)
	if _, worth := task.nextStatus(noon()); worth {
		t.Error("it is shown again")
	}
}

func TestWhatCannotBeMeasuredHolds(t *testing.T) {
	t.Parallel()
	task := aTask(aMetric(t, "a")).outcomes(0, pass).isShown(noon())
	task.run.Problem = "The analysis cannot be measured: its template is gone."
	run, worth := task.nextStatus(noon())
	if diff := cmp.Diff([]any{api.AnalysisWaiting, task.run.Problem, true, int32(1)}, []any{run.Phase, run.Message, worth, run.Metrics[0].Passed}); diff != "" {
		t.Error(diff)
	}
	task.run.Record = &run
	if _, worth := task.nextStatus(noon()); worth {
		t.Error("it is shown again")
	}
	task.run.Problem = ""
	if run, worth := task.nextStatus(noon()); !worth || run.Phase != api.AnalysisRunning {
		t.Errorf("once mended it shows %s, worth a write: %v", run.Phase, worth)
	}
}
