package analysisestimate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/analysisestimate"
	"sluice.dev/sluice/test/drawn"
)

// traffic returns the default options of the command, at 100 requests per second with 0.1 % errors.
func traffic(changes ...func(*analysisestimate.Options)) analysisestimate.Options {
	o := analysisestimate.Options{Rate: 100, Weight: 5, ErrorRate: 0.001, Interval: 30, Step: 600, Alpha: 0.01, LongestBurst: 300, Samples: 20000, MaxRatio: 1.5}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func half(o *analysisestimate.Options)   { o.Weight = 50 }
func tenth(o *analysisestimate.Options)  { o.Interval = 10 }
func slow(o *analysisestimate.Options)   { o.Rate = 0.01 }
func short(o *analysisestimate.Options)  { o.Step = 10 }
func long(o *analysisestimate.Options)   { o.Step = 4 * 3600 }
func steady(o *analysisestimate.Options) { o.LongestBurst = 0 }

// A change of the rules in pkg/analysis may move a time within its range.
func TestTheTimesAreThoseOfTheAnalyzer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options analysisestimate.Options
		// least and most are the bounds of the times to fail, with 2, 3, 5, 10 and 30 times the errors. 0 means never.
		least, most [5]time.Duration
		// good is the range of the time to pass. 0 means never.
		good [2]time.Duration
	}{
		"with half of the requests on the canary": {
			traffic(half, tenth),
			[5]time.Duration{8 * time.Minute, 3 * time.Minute, time.Minute, 20 * time.Second, 10 * time.Second},
			[5]time.Duration{20 * time.Minute, 5 * time.Minute, 2 * time.Minute, 50 * time.Second, 20 * time.Second},
			[2]time.Duration{400 * time.Second, 600 * time.Second},
		},
		"with errors that come steadily": {
			traffic(half, tenth, steady),
			[5]time.Duration{8 * time.Minute, 3 * time.Minute, time.Minute, 20 * time.Second, 10 * time.Second},
			[5]time.Duration{20 * time.Minute, 5 * time.Minute, 2 * time.Minute, 50 * time.Second, 20 * time.Second},
			[2]time.Duration{400 * time.Second, 600 * time.Second},
		},
		"with a small part of the requests on the canary": {
			traffic(),
			[5]time.Duration{30 * time.Minute, 10 * time.Minute, 3 * time.Minute, time.Minute, 30 * time.Second},
			[5]time.Duration{2 * time.Hour, 30 * time.Minute, 9 * time.Minute, 4 * time.Minute, time.Minute},
			[2]time.Duration{4000 * time.Second, 6000 * time.Second},
		},
		"with too few samples for evidence": {
			traffic(half, tenth, func(o *analysisestimate.Options) { o.Samples = 2000 }),
			[5]time.Duration{8 * time.Minute, 3 * time.Minute, time.Minute, 20 * time.Second, 10 * time.Second},
			[5]time.Duration{20 * time.Minute, 5 * time.Minute, 2 * time.Minute, 50 * time.Second, 20 * time.Second},
			[2]time.Duration{50 * time.Second, 400 * time.Second},
		},
		"almost without requests": {options: traffic(slow)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := analysisestimate.Estimate(test.options)
			for i, w := range r.Worse {
				if got := timeOf(w.FailsAfter); got < test.least[i] || got > test.most[i] {
					t.Errorf("a canary with %g times the errors fails after %s, want %s to %s", w.Ratio, got, test.least[i], test.most[i])
				}
				if want := w.FailsAfter != nil && *w.FailsAfter <= test.options.Step; w.InStep != want {
					t.Errorf("a canary with %g times the errors fails within the step: %t, want %t", w.Ratio, w.InStep, want)
				}
			}
			if got := timeOf(r.Good.PassesAfter); got < test.good[0] || got > test.good[1] {
				t.Errorf("a canary that is no worse passes after %s, want %s to %s", got, test.good[0], test.good[1])
			}
			if want := r.Good.PassesAfter != nil && *r.Good.PassesAfter <= test.options.Step; r.Good.InStep != want {
				t.Errorf("a canary that is no worse passes within the step: %t, want %t", r.Good.InStep, want)
			}
		})
	}
}

func timeOf(s *analysisestimate.Seconds) time.Duration {
	if s == nil {
		return 0
	}
	return s.Duration()
}

func TestTheRequestsOfAnInterval(t *testing.T) {
	t.Parallel()
	r := analysisestimate.Estimate(traffic())
	if diff := cmp.Diff(analysisestimate.Requests{Canary: 150, CanaryBad: 0.15, Stable: 2850, StableBad: 2.85}, r.Interval); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, w := range r.Worse {
		if want := 5 * float64(*w.FailsAfter) * w.ErrorRate; *w.CanaryBad < want*0.999 || *w.CanaryBad > want*1.001 {
			t.Errorf("a canary with %g times the errors has %g bad requests, want %g", w.Ratio, *w.CanaryBad, want)
		}
	}
}

func TestACanaryHasNoMoreErrorsThanRequests(t *testing.T) {
	t.Parallel()
	r := analysisestimate.Estimate(traffic(func(o *analysisestimate.Options) { o.ErrorRate = 0.15 }))
	var shares []float64
	for _, w := range r.Worse {
		shares = append(shares, w.ErrorRate)
	}
	if diff := cmp.Diff([]float64{0.3, 0.45, 0.75, 1, 1}, shares); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheHorizon(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		interval, step analysisestimate.Seconds
		want           time.Duration
	}{
		"is a day":                                {60, 600, 24 * time.Hour},
		"is a day, though nothing fits the step":  {24 * 3600, 600, 24 * time.Hour},
		"is a longer step":                        {60, 30 * 3600, 30 * time.Hour},
		"has at most 20,000 ticks":                {1, 600, 20000 * time.Second},
		"ends with the last whole tick of a step": {7 * 3600, 30 * 3600, 28 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := analysisestimate.Estimate(traffic(half, func(o *analysisestimate.Options) { o.Interval, o.Step, o.Samples = test.interval, test.step, 1 }))
			if got := r.Horizon.Duration(); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
		})
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	const blind, fine, nothing = "a canary with 3 times the errors has", "This is fine", "so nothing is compared in it"
	for name, test := range map[string]struct {
		options analysisestimate.Options
		want    []string
	}{
		"a long step needs none but the last":      {traffic(half, long), nil},
		"a short step has few bad requests":        {traffic(), []string{blind + " 9 bad requests, which is few. The comparison is blind there: it misses most canaries with up to 3 times the errors."}},
		"a step shorter than an interval has none": {traffic(short), []string{nothing}},
		"an interval may have less than 1":         {traffic(half, long, tenth, func(o *analysisestimate.Options) { o.Rate = 95 }), []string{fine}},
		"an interval may be too long": {traffic(half, long, func(o *analysisestimate.Options) { o.Interval = 300 }),
			[]string{"With an interval of 30s, a canary with 10 times the errors would fail after 30s."}},
		"with few requests, no ratio is high enough": {traffic(slow), []string{blind + " less than 0.001 bad requests, which is few. The comparison is blind there: it misses most canaries with up to 30 times the errors.", fine}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hints := analysisestimate.Estimate(test.options).Hints
			want := append(test.want, "docs/analysis.md says how long.")
			if len(hints) != len(want) {
				t.Fatalf("%d hints, want %d:\n%s", len(hints), len(want), strings.Join(hints, "\n"))
			}
			for i := range want {
				if !strings.Contains(hints[i], want[i]) {
					t.Errorf("the hint lacks %q: %s", want[i], hints[i])
				}
			}
		})
	}
}

// The archives hold reports, so that a change of the rules in pkg/analysis does not move their texts.
func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	drawn.Cases(t, func(t *testing.T) drawn.Case {
		var r analysisestimate.Report
		return func(name string, content []byte) (string, bool) {
			if name == "report.yaml" {
				if err := yaml.UnmarshalStrict(content, &r); err != nil {
					t.Fatal(err)
				}
				return "", false
			}
			return strings.Join(r.Text(color.Ink{On: name == "terminal"}), "\n") + "\n", true
		}
	})
}
