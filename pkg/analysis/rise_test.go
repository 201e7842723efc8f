package analysis

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Counters have samples a quarter of a minute apart; the window of the tests holds the third and fourth of them.
func TestHowMuchCountersRise(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	from, to := begin().Add(15*time.Second), begin().Add(45*time.Second)
	for name, c := range map[string]struct {
		samples []float64
		want    []float64
	}{
		"steadily":                          {[]float64{100, 110, 120, 130, 140}, []float64{20}},
		"not at all":                        {[]float64{100, 100, 100, 100}, []float64{0}},
		"with a reset, which counts from 0": {[]float64{100, 110, 120, 5, 10}, []float64{15}},
		"with a reset to 0":                 {[]float64{100, 110, 0, 5}, []float64{5}},
		"with a reset at the edge":          {[]float64{100, 110, 7, 9}, []float64{9}},
		"with a scrape missing before":      {[]float64{100, nan, 120, 130}, []float64{30}},
		"with a scrape missing inside":      {[]float64{100, 110, nan, 130}, []float64{20}},
		"with the last scrape missing":      {[]float64{100, 110, 120, nan}, []float64{10}},
		"with all scrapes missing":          {[]float64{100, 110, nan, nan}, nil},
		"from its first sample on":          {[]float64{nan, nan, 5000, 5010}, []float64{10}},
		"from its only sample on":           {[]float64{nan, nan, nan, 5000}, []float64{0}},
		"until it ends":                     {[]float64{100, 110, 125, staleMarker(), staleMarker()}, []float64{15}},
		"after the window only":             {[]float64{nan, nan, nan, nan, 100}, nil},
		"with something that is no counter": {[]float64{100, 110, -5, 10}, []float64{15}},
		"with infinity, which is no count":  {[]float64{100, 110, math.Inf(1), 130}, []float64{20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []float64
			for _, s := range CounterRise(matrix(c.samples...), from, to).Series {
				got = append(got, s.Points[0].Value)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// With any scrapes, resets and gaps, adjacent windows together count as much as one window, and no count is negative.
func TestWindowsTile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1000), rapid.Just(math.NaN())), 0, 40).Draw(t, "samples")
		cuts := rapid.SliceOfN(rapid.Int64Range(0, 600), 2, 6).Draw(t, "cuts")
		sum := func(from, to int64) float64 {
			total := 0.0
			for _, s := range CounterRise(matrix(samples...), begin().Add(time.Duration(from)*time.Second), begin().Add(time.Duration(to)*time.Second)).Series {
				if s.Points[0].Value < 0 {
					t.Fatalf("a rise of %g", s.Points[0].Value)
				}
				total += s.Points[0].Value
			}
			return total
		}
		parts, low, high := 0.0, cuts[0], cuts[0]
		for _, cut := range cuts[1:] {
			if cut > high {
				parts += sum(high, cut)
				high = cut
			}
		}
		if whole := sum(low, high); math.Abs(whole-parts) > 1e-6 {
			t.Fatalf("parts count %g, the whole %g", parts, whole)
		}
	})
}
