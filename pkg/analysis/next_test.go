package analysis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/api"
)

// ruled has the compared parts of a verdict.
type ruled struct {
	Phase          api.MetricPhase
	Ended, Passing bool
}

func TestWhatMeasurementsDecide(t *testing.T) {
	t.Parallel()
	const pass, fail, unsure, nothing, broken = OutcomePass, OutcomeFail, OutcomeInconclusive, OutcomeNoData, OutcomeError
	lasting := func(d *api.Metric) { d.Count = 0 }
	noData := func(policy string, deadline api.Duration) func(*api.Metric) {
		return func(d *api.Metric) { d.NoData = &api.NoDataPolicy{Policy: policy, Deadline: deadline} }
	}
	failOnError := func(d *api.Metric) { d.Error = &api.ErrorPolicy{Policy: "Fail"} }
	same := func(*api.Metric) {}
	cases := map[string]struct {
		change   func(*api.Metric)
		outcomes []Outcome
		want     ruled
		word     string
	}{
		"none, and nothing is decided":                       {same, nil, ruled{Phase: api.MetricRunning}, "Nothing has been measured"},
		"nine of ten pass, and it is not over":               {same, times(9, pass), ruled{Phase: api.MetricRunning}, "Measurement 9 of 10"},
		"ten pass":                                           {same, times(10, pass), ruled{Phase: api.MetricPassed, Ended: true}, "10 of 10 measurements passed"},
		"nine pass, one fails, which is tolerated":           {same, append(times(9, pass), fail), ruled{Phase: api.MetricPassed, Ended: true}, "9 of 10"},
		"the second that fails decides at once":              {same, []Outcome{fail, pass, fail}, ruled{Phase: api.MetricFailed, Ended: true}, "2 measurements failed, and 1 may"},
		"two inconclusive ones are tolerated":                {same, append(times(8, pass), unsure, unsure), ruled{Phase: api.MetricPassed, Ended: true}, "8 of 10"},
		"the third inconclusive one asks a person":           {same, []Outcome{unsure, pass, unsure, unsure}, ruled{Phase: api.MetricInconclusive, Ended: true}, "approve or roll back"},
		"no data holds":                                      {same, []Outcome{pass, nothing}, ruled{Phase: api.MetricWaiting}, "for 5m at most"},
		"no data for as long as the deadline asks a person":  {same, times(11, nothing), ruled{Phase: api.MetricInconclusive}, "For 5m nothing could be judged"},
		"data in time lead back":                             {same, append(times(10, nothing), pass), ruled{Phase: api.MetricRunning}, "Measurement 1 of 10"},
		"data after the deadline lead back as well":          {same, append(times(30, nothing), pass), ruled{Phase: api.MetricRunning}, "Measurement 1 of 10"},
		"data end the time without":                          {same, slices.Concat(times(8, nothing), times(1, pass), times(8, nothing)), ruled{Phase: api.MetricWaiting}, ""},
		"no data do not count towards the ten":               {same, slices.Concat(times(5, pass), times(5, nothing)), ruled{Phase: api.MetricWaiting}, ""},
		"errors hold":                                        {same, []Outcome{broken}, ruled{Phase: api.MetricWaiting}, "for 10m at most"},
		"errors alone never pass":                            {same, times(100, broken), ruled{Phase: api.MetricInconclusive}, "nothing could be judged"},
		"errors and no data in turn do not end each other":   {same, slices.Repeat([]Outcome{broken, nothing}, 12), ruled{Phase: api.MetricInconclusive}, ""},
		"no data pass where the policy says so":              {noData("Pass", ""), times(10, nothing), ruled{Phase: api.MetricPassed, Ended: true}, "10 of 10"},
		"no data fail where the policy says so":              {noData("Fail", ""), times(2, nothing), ruled{Phase: api.MetricFailed, Ended: true}, "2 measurements failed"},
		"no data fail only after the deadline of the policy": {noData("Fail", "2m"), times(4, nothing), ruled{Phase: api.MetricWaiting}, "for 30s at most"},
		"and then they do":                                   {noData("Fail", "2m"), times(6, nothing), ruled{Phase: api.MetricFailed, Ended: true}, ""},
		"errors fail where the policy says so":               {failOnError, times(2, broken), ruled{Phase: api.MetricFailed, Ended: true}, ""},
		"without count, one that passes is fine":             {lasting, times(1, pass), ruled{Phase: api.MetricRunning, Passing: true}, ""},
		"without count, a hundred that pass do not end it":   {lasting, times(100, pass), ruled{Phase: api.MetricRunning, Passing: true}, ""},
		"without count, one tolerated failure is not fine":   {lasting, []Outcome{pass, fail}, ruled{Phase: api.MetricRunning}, ""},
		"without count, failures add up":                     {lasting, append(times(50, pass), fail, fail), ruled{Phase: api.MetricFailed, Ended: true}, ""},
		"without count, silence is not fine":                 {lasting, []Outcome{pass, nothing}, ruled{Phase: api.MetricWaiting}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parsed(t, aDefinition(c.change))
			s, v := play(spec, NewState(begin()), c.outcomes...)
			if len(c.outcomes) == 0 {
				v = s.Verdict(spec)
			}
			if diff := cmp.Diff(c.want, ruled{v.Phase, v.Ended, v.Passing}); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(v.Message, c.word) {
				t.Errorf("%q is not in %q", c.word, v.Message)
			}
		})
	}
}

// ParseMetric refuses such limits. If they come in another way, nothing passes because of them.
func TestWithoutOneThatPassedNothingPasses(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aDefinition())
	spec.Count, spec.FailureLimit, spec.InconclusiveLimit = 3, 3, 3
	if _, v := play(spec, NewState(begin()), OutcomeFail, OutcomeInconclusive, OutcomeFail); v.Phase != api.MetricRunning || v.Ended {
		t.Errorf("got %+v", v)
	}
}

func TestMeasurementsThatDoNotCountChangeNothing(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aDefinition(func(d *api.Metric) { d.Settle = "20s" }))
	ready := begin().Add(80 * time.Second) // settle and the window of one minute
	s, _ := NextState(NewState(begin()), Measurement{At: ready, Outcome: OutcomePass}, spec, ready)
	ended, _ := play(spec, s, OutcomeFail, OutcomeFail)
	for name, c := range map[string]struct {
		state State
		at    time.Time
	}{
		"one that sees traffic from before the last change":   {NewState(begin()), ready.Add(-time.Millisecond)},
		"one that sees traffic from before settle had passed": {s.TrafficChanged(ready), ready.Add(30 * time.Second)},
		"the same once more":                                     {s, ready},
		"one from before the last":                               {s, ready.Add(-time.Second)},
		"one after the metric has ended":                         {ended, ended.LastAt.Add(time.Minute)},
		"an older change of traffic, heard of late, allows none": {NewState(begin()).TrafficChanged(begin().Add(-time.Hour)), ready.Add(-time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, v := NextState(c.state, Measurement{At: c.at, Outcome: OutcomeFail}, spec, c.at)
			if diff := cmp.Diff(c.state, got); diff != "" {
				t.Error(diff)
			}
			if !v.Ignored || v.Phase != c.state.Phase {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestLateMeasurementsAreCounted(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aDefinition())
	at := begin().Add(time.Minute)
	s, v := NextState(NewState(begin()), Measurement{At: at, Outcome: OutcomePass}, spec, at.Add(2*time.Second))
	if s.Late != 0 || v.Lateness != 2*time.Second {
		t.Errorf("2 s of 30 s: late %d, lateness %s", s.Late, v.Lateness)
	}
	s, _ = NextState(s, Measurement{At: at.Add(30 * time.Second), Outcome: OutcomePass}, spec, at.Add(34*time.Second))
	if s.Late != 1 {
		t.Errorf("4 s of 30 s: late %d", s.Late)
	}
}

// A state may be stored after any measurement, and the run goes on from it as if it had stayed in memory.
func TestARunGoesOnFromWhatWasStored(t *testing.T) {
	t.Parallel()
	specs := []Metric{parsed(t, aDefinition()), parsed(t, aComparison()), parsed(t, aLatency())}
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(specs).Draw(t, "metric")
		kept, stored := NewState(begin()), NewState(begin())
		for range rapid.IntRange(1, 30).Draw(t, "measurements") {
			at := NextDue(kept, spec, "key", kept.LastAt)
			if at.IsZero() {
				break
			}
			m := drawMeasurement(t, spec, at)
			var a, b Verdict
			kept, a = NextState(kept, m, spec, at)
			data, err := stored.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 8<<10 {
				t.Fatalf("a state of %d bytes", len(data))
			}
			if stored, err = DecodeState(data); err != nil {
				t.Fatal(err)
			}
			stored, b = NextState(stored, m, spec, at)
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatal(diff)
			}
			if again, v := NextState(kept, m, spec, at); !v.Ignored || !cmp.Equal(again, kept) {
				t.Fatal("the same measurement counted twice")
			}
			if a.Phase == api.MetricPassed && kept.Passed == 0 {
				t.Fatal("passed without a measurement that passed")
			}
			if !strings.HasSuffix(a.Message, ".") {
				t.Fatalf("not a sentence: %q", a.Message)
			}
		}
	})
}

func drawMeasurement(t *rapid.T, spec Metric, at time.Time) Measurement {
	outcome := rapid.SampledFrom([]Outcome{OutcomePass, OutcomePass, OutcomePass, OutcomeFail, OutcomeInconclusive, OutcomeNoData, OutcomeError}).Draw(t, "outcome")
	if spec.Compare == nil || !outcome.isConclusive() {
		return Measurement{At: at, Outcome: outcome, Message: "Measured."}
	}
	number := func(name string) Result { return vector(float64(rapid.IntRange(0, 500).Draw(t, name))) }
	if spec.Compare.Counts != nil {
		return spec.Measure(at, Answers{CanaryBad: number("a"), CanaryTotal: number("b"), StableBad: number("c"), StableTotal: number("d")})
	}
	buckets := func(name string) Result {
		r := Result{Kind: KindVector}
		for _, le := range []string{"0.1", "0.5", "+Inf"} {
			s := number(name + le).Series[0]
			s.Labels = map[string]string{"le": le}
			r.Series = append(r.Series, s)
		}
		return r
	}
	return spec.Measure(at, Answers{CanaryBuckets: buckets("canary"), StableBuckets: buckets("stable")})
}

func TestAStateOfAnotherVersionIsNotContinued(t *testing.T) {
	t.Parallel()
	if _, err := DecodeState([]byte(`{"version": 1}`)); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
	if _, err := DecodeState([]byte(`{"version": `)); err == nil || errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
}

func TestTheStatusShowsTheRun(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aDefinition(func(d *api.Metric) { d.DryRun = true }))
	at, value := begin().Add(time.Minute), 0.991
	s, v := NextState(NewState(begin()), Measurement{At: at, Outcome: OutcomePass, Value: &value, Message: "The value 0.991 passes."}, spec, at)
	if !v.DryRun {
		t.Error("a dry run is not told as one")
	}
	got := s.Status(spec)
	got.LastTime = nil
	want := api.MetricStatus{Name: "success-rate", Phase: api.MetricRunning, Passed: 1, LastValue: "0.991", DryRun: true, Message: "Measurement 1 of 10. The value 0.991 passes."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s, _ = NextState(s, Measurement{At: at.Add(time.Minute), Outcome: OutcomeError, Values: []float64{1, 2, 3, 4, 5, 6, 7}}, spec, at)
	if s.LastValue != "1, 2, 3, 4, 5, and 2 more" {
		t.Errorf("got %q", s.LastValue)
	}
}

func TestFailureIsAnError(t *testing.T) {
	t.Parallel()
	got := ErrorMeasurement(begin(), errors.New("query prometheus.shop.svc: connection refused"))
	want := Measurement{At: begin(), Outcome: OutcomeError, Message: "Query prometheus.shop.svc: connection refused."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
