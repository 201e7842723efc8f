package analysis

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// buckets is an answer with cumulative counts, the last for +Inf.
func buckets(bounds []float64, counts ...float64) Result {
	r := vector(counts...)
	for i := range r.Series {
		le := math.Inf(1)
		if i < len(bounds) {
			le = bounds[i]
		}
		r.Series[i].Labels = map[string]string{"le": strconv.FormatFloat(le, 'g', -1, 64)}
	}
	return r
}

func TestHistogramsAreReadFromBuckets(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	twoPods := buckets([]float64{0.1, 0.5}, 90, 99, 100)
	twoPods.Series = append(twoPods.Series, buckets([]float64{0.1, 0.5}, 10, 10, 10).Series...)
	for name, c := range map[string]struct {
		answer Result
		want   Histogram
		odd    said
	}{
		"one pod":                    {buckets([]float64{0.1, 0.5}, 90, 99, 100), Histogram{{0.1, 90}, {0.5, 99}, {inf, 100}}, said{}},
		"two pods":                   {twoPods, Histogram{{0.1, 100}, {0.5, 109}, {inf, 110}}, said{}},
		"in any order":               {buckets([]float64{0.5, 0.1}, 99, 90, 100), Histogram{{0.1, 90}, {0.5, 99}, {inf, 100}}, said{}},
		"a wider bucket with less":   {buckets([]float64{0.1, 0.5}, 90, 89.5, 100), Histogram{{0.1, 90}, {0.5, 90}, {inf, 100}}, said{}},
		"without requests":           {buckets([]float64{0.1}, 0, 0), Histogram{{0.1, 0}, {inf, 0}}, said{}},
		"without the last bucket":    {buckets([]float64{0.1, 0.5}, 90, 99), nil, said{OutcomeError, "+Inf"}},
		"with the last bucket alone": {buckets(nil, 100), nil, said{OutcomeError, "at least one other"}},
		"without le":                 {vector(1, 2), nil, said{OutcomeError, "label le"}},
		"with a negative count":      {buckets([]float64{0.1}, -1, 5), nil, said{OutcomeError, "never falls below 0"}},
		"without series":             {vector(), nil, said{OutcomeNoData, "no series"}},
		"native":                     {Result{Kind: KindVector, Series: []Series{{Histogram: true}}}, nil, said{OutcomeError, "native histograms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, outcome, message := HistogramOf(c.answer)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.odd, heard(Measurement{Outcome: outcome, Message: message}, c.odd.Word)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheBoundLiesWhereTheQuantileDoes(t *testing.T) {
	t.Parallel()
	h := Histogram{{0.1, 8000}, {0.25, 9890}, {0.5, 9999}, {math.Inf(1), 10000}}
	for name, c := range map[string]struct {
		quantile float64
		other    Histogram
		want     float64
	}{
		"p99":                                   {0.99, h, 0.25},
		"p80":                                   {0.8, h, 0.1},
		"p9999":                                 {0.9999, h, 0.5},
		"the nearest that the canary has too":   {0.99, Histogram{{0.1, 0}, {math.Inf(1), 0}}, 0.1},
		"none, if the canary has no such bound": {0.99, Histogram{{0.3, 0}, {math.Inf(1), 0}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := h.boundFor(c.quantile, c.other); got != c.want {
				t.Errorf("got %g, want %g", got, c.want)
			}
		})
	}
	if got := h.SlowerThan(0.25); got != 110 {
		t.Errorf("%g are slower than 0.25, want 110", got)
	}
}

func TestHistogramsAreStored(t *testing.T) {
	t.Parallel()
	want := Histogram{{0.1, 90.5}, {math.Inf(1), 100}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Histogram
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, broken := range []string{`[["x","1"]]`, `[["1","x"]]`, `[1]`} {
		if json.Unmarshal([]byte(broken), &got) == nil {
			t.Errorf("%s was read", broken)
		}
	}
}
