package analysis

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatThePastTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		past    Past
		burst   int
		endless bool
		// least and most bound the variation of blocks of 40 s.
		least, most float64
	}{
		"errors come evenly":                  {pastOf(1, 0.01), 1, false, 0, 0.01},
		"there are no errors":                 {pastOf(1, 0), 1, false, 0, 4},
		"one in seven minutes has a burst":    {pastOf(1, 0, 0, 0, 0.05, 0, 0, 0), 1, false, 3, 4},
		"bursts last two minutes":             {pastOf(2, 0, 0, 0, 0.05, 0, 0, 0), 4, false, 3, 4},
		"bursts last five minutes":            {pastOf(5, 0, 0, 0, 0.05, 0, 0, 0), 5, true, 3, 4},
		"a minute in two has half more":       {pastOf(1, 0.01, 0.015), 1, false, 0.01, 0.2},
		"the rate doubles slowly, over hours": {pastOf(60, 0.01, 0.012, 0.014, 0.016, 0.018, 0.02), 6, true, 0, 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !c.past.IsEnough() || c.past.Burst != c.burst || c.past.Endless != c.endless {
				t.Errorf("enough %t, burst %d, endless %t", c.past.IsEnough(), c.past.Burst, c.past.Endless)
			}
			if got := c.past.variation(2); got < c.least || got > c.most {
				t.Errorf("a variation of %g, want %g to %g", got, c.least, c.most)
			}
			if got := c.past.variation(0); got < 0.99*c.past.variation(2) {
				t.Errorf("shorter blocks vary less: %g, and %g over 40 s", got, c.past.variation(2))
			}
		})
	}
}

func TestHowMuchOfThePastIsEnough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interval, longestBurst time.Duration
		ticks                  int
		want                   bool
	}{
		"nothing":    {30 * time.Second, 5 * time.Minute, 0, false},
		"59 minutes": {30 * time.Second, 5 * time.Minute, 118, false},
		"an hour":    {30 * time.Second, 5 * time.Minute, 120, true},
		"an hour, of ticks that are longer than 30 s": {10 * time.Second, 5 * time.Minute, 90, true},
		"twelve short bursts":                         {time.Second, 10 * time.Second, 4, true},
		"twelve long intervals":                       {time.Hour, 5 * time.Minute, 12, true},
		"eleven of them":                              {time.Hour, 5 * time.Minute, 11, false},
		"nothing, where errors come steadily":         {30 * time.Second, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ticks := make([]Tick, c.ticks, c.ticks+1)
			for i := range ticks {
				ticks[i] = Tick{Bad: 3, Total: 1000}
			}
			past := NewPast(append(ticks, Tick{}), c.interval, c.longestBurst) // a tick without requests tells nothing
			if got := past.IsEnough(); got != c.want {
				t.Errorf("enough is %t: %s of %s", got, past.Known, past.Needed)
			}
			if !past.isFor(c.interval, c.longestBurst) {
				t.Errorf("it is not for its own metric: %d blocks", len(past.Shapes))
			}
		})
	}
}

// An answer about the past has a bounded number of points, for any interval and any bursts.
func TestThePastFitsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, 45 * time.Second, 12 * time.Minute, 24 * time.Hour} {
		for _, burst := range []time.Duration{time.Second, 5 * time.Minute, time.Hour} {
			if points := PastLength(interval, burst) / PastStep(interval, burst); points < 36 || points > mostTicks {
				t.Errorf("interval %s, bursts of %s: %d points", interval, burst, points)
			}
		}
	}
}

// A canary without bad requests passes, however few the stable group has.
func TestAQuietCanaryPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		share   float64
		counts  Counts
		ticks   int
		samples float64
		want    bool
	}{
		"no errors, before and now":                           {0, Counts{0, 500, 0, 500}, 5, 2000, true},
		"no errors, but fewer requests than tell a rate":      {0, Counts{0, 500, 0, 500}, 3, 500, false},
		"no errors now, and enough requests for the past's":   {0.001, Counts{0, 500, 0, 500}, 4, 500, true},
		"no errors now, and too few requests for the past's":  {0.0001, Counts{0, 500, 0, 500}, 10, 20_000, false},
		"as many errors as before, and enough requests":       {0.001, Counts{0.5, 500, 0.5, 500}, 16, 2000, true},
		"twice as many errors as before, in both, few so far": {0.001, Counts{1, 500, 1, 500}, 8, 2000, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Evidence{Past: pastOf(1, c.share), Tolerate: 1}.gathered(c.ticks, c.counts)
			if got := e.RulesOut(1.5, c.samples); got != c.want {
				t.Errorf("it passes: %t", got)
			}
		})
	}
}

func TestQueriesForThePast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interval, query, want string
	}{
		"the interval is long enough": {"30s", `sum(increase(bad{a="[30s]"}[30s]))`, `sum(increase(bad{a="[30s]"}[30s]))`},
		"a short interval":            {"10s", `sum(increase(bad{a="[10s]"}[10s])) or vector(0)`, `sum(increase(bad{a="[10s]"}[40s])) or vector(0)`},
		"two ranges":                  {"10s", `increase(a[10s]) + increase(b[ 10s ])`, `increase(a[40s]) + increase(b[40s])`},
		"counters":                    {"10s", ` bad{path=~"/a(b)[0-9]"}[6m] `, `sum (increase(bad{path=~"/a(b)[0-9]"}[40s]))`},
		"counters by name only":       {"30s", `bad[6m]`, `sum (increase(bad[30s]))`},
		"a selector by labels only":   {"30s", `{__name__="bad"}[6m]`, `sum (increase({__name__="bad"}[30s]))`},
		"a subquery of counters":      {"30s", `max_over_time(bad[30s:10s])[6m:]`, ""},
		"two subqueries":              {"10s", `increase(bad[5s:1s]) + increase(bad[5s:1s])`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parsed(t, aComparison(func(d *api.Metric) {
				d.Interval, d.Compare.LongestBurst = api.Duration(c.interval), ""
				d.Compare.Counts.StableBad = api.PromQL(c.query)
				for _, q := range []*api.PromQL{&d.Compare.Counts.CanaryBad, &d.Compare.Counts.CanaryTotal, &d.Compare.Counts.StableTotal} {
					*q = api.PromQL(fmt.Sprintf("increase(x[%s])", c.interval))
				}
			}))
			var asked []PastQuery
			a := spec.AskPast(func(q PastQuery) (Result, error) {
				asked = append(asked, q)
				return Result{Kind: KindMatrix}, nil
			})
			if (a.problem == "") != (c.want != "") {
				t.Fatalf("the problem is %q", a.problem)
			}
			if c.want == "" {
				return
			}
			if got := asked[0]; got.Text != c.want || got.Step != PastStep(spec.Interval, longestBurst) || got.Length != 6*time.Hour {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

// pastMatrix answers queries for the past of the stable group: a value in each tick.
func pastMatrix(ticks int, labels map[string]string, value float64) Result {
	s := Series{Labels: labels}
	for i := range ticks {
		s.Points = append(s.Points, Point{At: begin().Add(time.Duration(i-ticks) * 30 * time.Second), Value: value})
	}
	return Result{Kind: KindMatrix, Series: []Series{s}}
}

func TestAComparisonWaitsForThePast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  func(PastQuery) (Result, error)
		want ruled
		word string
	}{
		"a past that is long enough": {func(q PastQuery) (Result, error) {
			return pastMatrix(720, nil, map[string]float64{"stableBad": 1, "stableTotal": 1000}[q.Name]), nil
		}, ruled{Phase: api.MetricFailed, Ended: true}, "The canary is worse"},
		"a short past": {func(PastQuery) (Result, error) { return pastMatrix(20, nil, 1), nil },
			ruled{Phase: api.MetricRunning}, "known for 10m, and 1h are needed"},
		"a past without errors": {func(q PastQuery) (Result, error) {
			if q.Name == "stableBad" {
				return Result{Kind: KindMatrix}, nil
			}
			return pastMatrix(720, nil, 1000), nil
		}, ruled{Phase: api.MetricFailed, Ended: true}, "The canary is worse"},
		"a past with gaps and NaN": {func(q PastQuery) (Result, error) {
			r := pastMatrix(720, nil, map[string]float64{"stableBad": 1, "stableTotal": 1000}[q.Name])
			for i := range 300 {
				r.Series[0].Points[i].Value = math.NaN()
			}
			return r, nil
		}, ruled{Phase: api.MetricFailed, Ended: true}, "The canary is worse"},
		"no past": {func(PastQuery) (Result, error) { return Result{Kind: KindMatrix}, nil }, ruled{Phase: api.MetricRunning}, "known for 0s, and 1h are needed"},
		"an error": {func(PastQuery) (Result, error) { return Result{}, errors.New("the provider does not answer") },
			ruled{Phase: api.MetricRunning}, "cannot be read. The provider does not answer."},
		"a warning": {func(PastQuery) (Result, error) {
			return Result{Kind: KindMatrix, Warnings: []string{"a store is away"}}, nil
		}, ruled{Phase: api.MetricRunning}, "a store is away"},
		"a string": {func(PastQuery) (Result, error) { return Result{Kind: KindString}, nil }, ruled{Phase: api.MetricRunning}, "cannot be read. The query returned a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.PassAfter, d.Compare.LongestBurst = nil, "" }))
			s, v := NewState(begin()), Verdict{}
			for range 40 {
				at := NextDue(s, spec, "key", s.LastAt)
				if at.IsZero() {
					break
				}
				a := requests(30, 500, 1, 500)
				if s.NeedsPast(spec, at) {
					a.Past = spec.AskPast(c.ask)
				}
				s, v = NextState(s, spec.Measure(at, a), spec, at)
			}
			if diff := cmp.Diff(c.want, ruled{v.Phase, v.Ended, v.Passing}); diff != "" {
				t.Error(diff, v.Message)
			}
			if !strings.Contains(v.Message, c.word) {
				t.Errorf("%q is not in %q", c.word, v.Message)
			}
		})
	}
}

// Bursts that last long delay the decision, and the message says so until there is one.
func TestLongBurstsAreToldUntilTheDecision(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison(func(d *api.Metric) {
		d.Interval, d.Compare.LongestBurst, d.Compare.PassAfter = "10s", "", nil
		d.Compare.Counts = &api.CompareCounts{CanaryBad: "a[6m]", CanaryTotal: "b[6m]", StableBad: "c[6m]", StableTotal: "d[6m]"}
	}))
	s := NewState(begin())
	s.Evidence = &Evidence{Past: pastOf(5, 0, 0, 0, 0.05, 0, 0, 0.02), Tolerate: 1}
	const told = "bursts of bad requests lasted longer"
	s, v := compareTicks(spec, s, 10, requests(50, 500, 5, 500))
	if v.Ended || !strings.Contains(v.Message, told) {
		t.Errorf("after ten ticks it is %s: %s", v.Phase, v.Message)
	}
	_, v = compareTicks(spec, s, 400, requests(50, 500, 5, 500))
	if v.Phase != api.MetricFailed || strings.Contains(v.Message, told) || !strings.HasSuffix(v.Message, "times the rate.") {
		t.Errorf("in the end it is %s: %s", v.Phase, v.Message)
	}
}

// Without a past, a canary does not pass either, however good it is.
func TestNothingPassesWithoutThePast(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.LongestBurst = "" }))
	s, v := compareTicks(spec, NewState(begin()), 60, requests(1, 500, 1, 500))
	if s.Phase != api.MetricRunning || !strings.Contains(v.Message, "Nothing is decided yet") {
		t.Errorf("it is %s: %s", s.Phase, v.Message)
	}
}

func TestWhenThePastIsReadAgain(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.LongestBurst = "" }))
	short, enough := NewPast(nil, spec.Interval, longestBurst), NewPast(hour(), spec.Interval, longestBurst)
	for name, c := range map[string]struct {
		first Measurement
		after time.Duration
		want  bool
	}{
		"soon after a short one":      {Measurement{Past: &short}, pastGrows - time.Second, false},
		"long after a short one":      {Measurement{Past: &short}, pastGrows, true},
		"soon after a failure":        {Measurement{PastProblem: "It failed."}, pastRetries - time.Second, false},
		"a minute after a failure":    {Measurement{PastProblem: "It failed."}, pastRetries, true},
		"after one that is enough":    {Measurement{Past: &enough}, 24 * time.Hour, false},
		"after one that was not read": {Measurement{}, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.first.At, c.first.Counts = begin().Add(time.Minute), &Counts{1, 500, 1, 500}
			s := NewState(begin())
			if !s.NeedsPast(spec, c.first.At) {
				t.Error("a new run needs no past")
			}
			s, _ = NextState(s, c.first, spec, c.first.At)
			if got := s.NeedsPast(spec, c.first.At.Add(c.after)); got != c.want {
				t.Errorf("it needs the past: %t", got)
			}
		})
	}
	steady := parsed(t, aComparison())
	rule := parsed(t, aDefinition())
	if s := NewState(begin()); s.NeedsPast(steady, begin()) || s.NeedsPast(rule, begin()) {
		t.Error("a metric that has no use for the past reads it")
	}
}

// hour is an hour of ticks.
func hour() (list []Tick) {
	for range 120 {
		list = append(list, Tick{Bad: 1, Total: 1000})
	}
	return list
}

// The past of latency tells at once which requests are slow.
func TestThePastOfLatency(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aLatency(func(d *api.Metric) { d.Compare.LongestBurst = "" }))
	past := spec.AskPast(func(PastQuery) (Result, error) {
		r := Result{Kind: KindMatrix}
		for le, count := range map[string]float64{"0.1": 400, "0.25": 495, "0.5": 499, "+Inf": 500} {
			r.Series = append(r.Series, pastMatrix(720, map[string]string{"le": le}, count).Series...)
		}
		return r, nil
	})
	at := begin().Add(time.Minute)
	s, v := NextState(NewState(begin()), spec.Measure(at, Answers{CanaryBuckets: slowOf500(40), StableBuckets: slowOf500(5), Past: past}), spec, at)
	if s.Evidence.Ticks != 1 || s.Evidence.Past.Share != 0.01 || !strings.Contains(v.Message, "slower than 0.25") {
		t.Errorf("%d ticks, a share of %g: %s", s.Evidence.Ticks, s.Evidence.Past.Share, v.Message)
	}
	bad := spec.Measure(at, Answers{CanaryBuckets: slowOf500(5), StableBuckets: slowOf500(5), Past: spec.AskPast(func(PastQuery) (Result, error) {
		return pastMatrix(720, map[string]string{"le": "x"}, 1), nil
	})})
	if !strings.Contains(bad.PastProblem, "label le") {
		t.Errorf("the problem is %q", bad.PastProblem)
	}
}

// A stored past for another interval, as of a damaged store, is read again.
func TestAPastOfAnotherMetricIsNotUsed(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.LongestBurst = "" }))
	for _, past := range []Past{{}, {Burst: -1}, pastOf(1, 0.01), {Shapes: make([]shapeWeights, 6), Burst: 9}} {
		s := NewState(begin())
		s.Evidence = &Evidence{Past: past}
		s, v := compareTicks(spec, s, 1, requests(1, 500, 1, 500))
		if s.Evidence.Past.IsEnough() || v.Phase != api.MetricRunning {
			t.Errorf("%d blocks, burst %d: it is %s", len(past.Shapes), past.Burst, v.Phase)
		}
	}
}
