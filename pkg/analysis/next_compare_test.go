package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

// compareTicks folds in the same answers, tick by tick.
func compareTicks(spec Metric, s State, ticks int, a Answers) (State, Verdict) {
	var v Verdict
	for range ticks {
		at := NextDue(s, spec, "key", s.LastAt)
		if at.IsZero() {
			break
		}
		s, v = NextState(s, spec.Measure(at, a), spec, at)
	}
	return s, v
}

func requests(canaryBad, canaryTotal, stableBad, stableTotal float64) Answers {
	return Answers{CanaryBad: vector(canaryBad), CanaryTotal: vector(canaryTotal), StableBad: vector(stableBad), StableTotal: vector(stableTotal)}
}

func TestWhatAComparisonDecides(t *testing.T) {
	t.Parallel()
	patience := func(d *api.Metric) { d.Count = 5 }
	lasting := func(d *api.Metric) { d.Compare.PassAfter = nil }
	same := func(*api.Metric) {}
	for name, c := range map[string]struct {
		change  func(*api.Metric)
		ticks   int
		answers Answers
		want    ruled
		word    string
	}{
		"too few requests yet":                    {same, 3, requests(1, 500, 1, 500), ruled{Phase: api.MetricRunning}, "1500 of 2000 requests seen"},
		"enough requests, and no worse":           {same, 30, requests(1, 500, 1, 500), ruled{Phase: api.MetricPassed, Ended: true}, "requests the canary is not worse by the ratio 1.5"},
		"enough requests, and a lean to worse":    {same, 1, requests(605, 50000, 500, 50000), ruled{Phase: api.MetricRunning}, "The canary may be worse"},
		"enough requests, and no errors":          {same, 9, requests(0, 500, 0, 500), ruled{Phase: api.MetricPassed, Ended: true}, "0 of 2000 requests"},
		"worse":                                   {same, 60, requests(10, 500, 1, 500), ruled{Phase: api.MetricFailed, Ended: true}, "times the rate"},
		"a little worse, and patience has an end": {patience, 9, requests(1.4, 500, 1, 500), ruled{Phase: api.MetricInconclusive, Ended: true}, "decide: approve or roll back"},
		"without passAfter it is fine":            {lasting, 20, requests(1, 500, 1, 500), ruled{Phase: api.MetricRunning, Passing: true}, "Nothing points to a worse canary"},
		"without passAfter it fails as well":      {lasting, 60, requests(10, 500, 1, 500), ruled{Phase: api.MetricFailed, Ended: true}, ""},
		"no requests at all hold":                 {same, 5, requests(0, 0, 0, 500), ruled{Phase: api.MetricWaiting}, "canary received no requests"},
		"and then ask a person":                   {same, 20, requests(0, 0, 0, 500), ruled{Phase: api.MetricInconclusive}, "nothing could be judged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, v := compareTicks(parsed(t, aComparison(c.change)), NewState(begin()), c.ticks, c.answers)
			if diff := cmp.Diff(c.want, ruled{v.Phase, v.Ended, v.Passing}); diff != "" {
				t.Error(diff, v.Message)
			}
			if !strings.Contains(v.Message, c.word) {
				t.Errorf("%q is not in %q", c.word, v.Message)
			}
		})
	}
}

// alpha is the chance that the user accepts of failing a canary that is no worse. The comparison fails exactly when the evidence reaches 1/alpha.
func TestACanaryFailsOnceTheEvidenceIsWhatAlphaAsksFor(t *testing.T) {
	t.Parallel()
	for name, alpha := range map[string]float64{"one in five": 0.2, "one in a hundred": 0.01, "one in ten thousand": 0.0001} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.Alpha, d.Compare.PassAfter = alpha, nil }))
			s, before := NewState(begin()), 0.0
			for range 100 {
				if s, _ = compareTicks(spec, s, 1, requests(1.5, 500, 0.5, 500)); s.Ended {
					break
				}
				before = s.Evidence.Odds().LogWorse()
			}
			asked, reached := math.Log(1/alpha), s.Evidence.Odds().LogWorse()
			if s.Phase != api.MetricFailed || before >= asked || reached < asked {
				t.Errorf("it is %s by evidence of %g, after %g; want Failed by %g", s.Phase, reached, before, asked)
			}
		})
	}
}

// The clusters of a fleet share alpha, so that together they fail a canary that is no worse as seldom as one cluster would.
func TestClustersShareAlpha(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alpha    float64
		clusters int32
		want     float64
	}{
		"without a fleet it stays":      {0.01, 0, 0.01},
		"one cluster has all of it":     {0.01, 1, 0.01},
		"each of 20 has a part":         {0.01, 20, 0.0005},
		"a part is not too small":       {0.01, 100_000, 1e-6},
		"a small alpha is not enlarged": {1e-7, 20, 1e-7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare := Compare{Alpha: c.alpha}
			compare.ShareAlpha(c.clusters)
			if math.Abs(compare.Alpha-c.want) > 1e-12 {
				t.Errorf("its alpha is %g, want %g", compare.Alpha, c.want)
			}
		})
	}
}

// The evidence must rule out the ratio of passAfter itself, with any tolerance.
func TestAToleranceDoesNotWidenWhatPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		canaryBad float64
		want      api.MetricPhase
	}{
		"as many bad requests":                       {0.5, api.MetricPassed},
		"a tolerable ratio":                          {0.75, api.MetricPassed},
		"a ratio that is nearly the one to rule out": {0.9, api.MetricRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parsed(t, aComparison(func(d *api.Metric) { d.Compare.TolerateRatio, d.Compare.PassAfter.MaxRatio = 1.5, 2 }))
			if s, v := compareTicks(spec, NewState(begin()), 60, requests(c.canaryBad, 500, 0.5, 500)); s.Phase != c.want {
				t.Errorf("it is %s, want %s: %s", s.Phase, c.want, v.Message)
			}
		})
	}
}

func TestRequestsCountOnce(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison())
	s, _ := compareTicks(spec, NewState(begin()), 1, requests(1, 500, 1, 500))
	at := s.LastAt.Add(spec.Interval - time.Second)
	got, v := NextState(s, spec.Measure(at, requests(1, 500, 1, 500)), spec, at)
	if !v.Ignored || !cmp.Equal(s, got) {
		t.Error("a tick that overlaps the last one counted")
	}
}

// slowOf500 has buckets with this number of slow requests among 500.
func slowOf500(slow float64) Result {
	return buckets([]float64{0.1, 0.25, 0.5}, 400, 500-slow, 500-slow/4, 500)
}

func TestWhatAComparisonOfLatencyDecides(t *testing.T) {
	t.Parallel()
	other := buckets([]float64{0.2, 0.3}, 400, 495, 500)
	for name, c := range map[string]struct {
		canary, stable Result
		ticks          int
		want           ruled
		word           string
	}{
		"the first tick tells what is slow": {slowOf500(5), slowOf500(5), 1, ruled{Phase: api.MetricWaiting}, "not known yet"},
		"as slow":                           {slowOf500(5), slowOf500(5), 20, ruled{Phase: api.MetricRunning, Passing: true}, "slower than 0.25"},
		"slower":                            {slowOf500(40), slowOf500(5), 20, ruled{Phase: api.MetricFailed, Ended: true}, "slower than 0.25"},
		"faster":                            {slowOf500(0), slowOf500(5), 20, ruled{Phase: api.MetricRunning, Passing: true}, ""},
		"with other buckets":                {other, slowOf500(5), 5, ruled{Phase: api.MetricWaiting}, "no bucket in common"},
		"without buckets of the canary":     {vector(), slowOf500(5), 5, ruled{Phase: api.MetricWaiting}, "About the latency of the canary group"},
		"without requests to the canary":    {buckets([]float64{0.1, 0.25, 0.5}, 0, 0, 0, 0), slowOf500(5), 5, ruled{Phase: api.MetricWaiting}, "canary received no requests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, v := compareTicks(parsed(t, aLatency()), NewState(begin()), c.ticks, Answers{CanaryBuckets: c.canary, StableBuckets: c.stable})
			if diff := cmp.Diff(c.want, ruled{v.Phase, v.Ended, v.Passing}); diff != "" {
				t.Error(diff, v.Message)
			}
			if !strings.Contains(v.Message, c.word) {
				t.Errorf("%q is not in %q", c.word, v.Message)
			}
		})
	}
}

// The bound of a tick comes from earlier ticks. A bound from the counted requests themselves would favour one group.
func TestABoundIsChosenBeforeItsRequestsAreCounted(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aLatency())
	s, _ := compareTicks(spec, NewState(begin()), 1, Answers{CanaryBuckets: slowOf500(5), StableBuckets: slowOf500(5)})
	slow := buckets([]float64{0.1, 0.25, 0.5}, 400, 2000, 4990, 5000)
	for _, bound := range []string{"0.25", "0.5"} {
		var v Verdict
		s, v = compareTicks(spec, s, 1, Answers{CanaryBuckets: slow, StableBuckets: slow})
		if want := "were slower than " + bound + ","; !strings.Contains(v.Message, want) {
			t.Errorf("%q is not in %q", want, v.Message)
		}
	}
}

// The comparison uses the rises of counters, also across resets, restarts and gaps.
func TestCountersAreComparedByTheirRise(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aComparison(func(d *api.Metric) {
		d.Compare.Counts = &api.CompareCounts{CanaryBad: "a[6m]", CanaryTotal: "b[6m]", StableBad: "c[6m]", StableTotal: "d[6m]"}
	}))
	at := begin().Add(45 * time.Second)
	m := spec.Measure(at, Answers{
		CanaryBad: matrix(0, 0, 1, 1), CanaryTotal: matrix(900, 1000, 100, 200), StableBad: matrix(math.NaN(), math.NaN(), math.NaN(), 7), StableTotal: matrix(500, 600, 700, 800),
	})
	want := &Counts{CanaryBad: 1, CanaryTotal: 200, StableBad: 0, StableTotal: 200}
	if diff := cmp.Diff(want, m.Counts); diff != "" {
		t.Error(diff, m.Message)
	}
}
