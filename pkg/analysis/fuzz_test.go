package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/api"
)

// FuzzDecode continues stored runs of any content: no readable state makes a measurement panic.
func FuzzDecode(f *testing.F) {
	for _, m := range []Metric{mustParse(f, aDefinition()), mustParse(f, aComparison()), mustParse(f, aLatency())} {
		s, _ := compareTicks(m, NewState(begin()), 3, Answers{
			Value: vector(1), CanaryBad: vector(1), CanaryTotal: vector(500), StableBad: vector(1), StableTotal: vector(500), CanaryBuckets: slowOf500(5), StableBuckets: slowOf500(5),
		})
		data, err := s.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	specs := []Metric{mustParse(f, aDefinition()), mustParse(f, aComparison()), mustParse(f, aLatency())}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeState(data)
		if err != nil {
			return
		}
		for _, spec := range specs {
			at := NextDue(s, spec, "key", begin().Add(time.Hour))
			_, v := NextState(s, spec.Measure(at, requests(1, 500, 1, 500)), spec, at)
			if v.Phase == "" && !v.Ignored {
				t.Errorf("a measurement without a phase: %+v", v)
			}
		}
	})
}

func mustParse(f *testing.F, d api.Metric) Metric {
	m, err := ParseMetric(d, nil)
	if err != nil {
		f.Fatal(err)
	}
	return m
}

// Each answer of a provider becomes one of the outcomes, with a sentence. Only comparable numbers pass.
func TestAnyAnswerBecomesAnOutcome(t *testing.T) {
	t.Parallel()
	value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1, staleMarker()}))
	series := rapid.Custom(func(t *rapid.T) Series {
		s := Series{Histogram: rapid.IntRange(0, 9).Draw(t, "histogram") == 0}
		if le := rapid.SampledFrom([]string{"", "0.1", "0.5", "+Inf", "NaN", "x"}).Draw(t, "le"); le != "" {
			s.Labels = map[string]string{"le": le}
		}
		for i, v := range rapid.SliceOfN(value, 0, 5).Draw(t, "values") {
			s.Points = append(s.Points, Point{At: begin().Add(time.Duration(i) * 15 * time.Second), Value: v})
		}
		return s
	})
	answer := rapid.Custom(func(t *rapid.T) Result {
		return Result{
			Kind:   rapid.SampledFrom([]Kind{KindVector, KindMatrix, KindScalar, KindString, ""}).Draw(t, "kind"),
			Series: rapid.SliceOfN(series, 0, 4).Draw(t, "series"),
		}
	})
	specs := []Metric{parsed(t, aComparison()), parsed(t, aLatency())}
	for _, r := range allReducers() {
		specs = append(specs, parsed(t, aDefinition(func(d *api.Metric) { d.Reduce = api.Reducer(r) })))
	}
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(specs).Draw(t, "metric")
		at := begin().Add(2 * time.Minute)
		s, v := NextState(NewState(begin()), spec.Measure(at, Answers{
			Value: answer.Draw(t, "value"), CanaryBad: answer.Draw(t, "a"), CanaryTotal: answer.Draw(t, "b"), StableBad: answer.Draw(t, "c"), StableTotal: answer.Draw(t, "d"),
			CanaryBuckets: answer.Draw(t, "e"), StableBuckets: answer.Draw(t, "f"),
		}), spec, at)
		if v.Measured.Outcome == "" || !strings.HasSuffix(v.Measured.Message, ".") || !strings.HasSuffix(v.Message, ".") {
			t.Fatalf("outcome %q: %q, %q", v.Measured.Outcome, v.Measured.Message, v.Message)
		}
		for _, x := range v.Measured.Values {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("a value of %g was judged", x)
			}
		}
		if _, err := s.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}
