package analysis

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

// said has the compared parts of a measurement: the outcome, and a word of the message.
type said struct {
	Outcome Outcome
	Word    string
}

func heard(m Measurement, word string) said {
	if !strings.Contains(m.Message, word) {
		word = m.Message
	}
	return said{m.Outcome, word}
}

func TestWhatOddAnswersMean(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	histogram := Result{Kind: KindVector, Series: []Series{{Histogram: true}}}
	warned := vector(1)
	warned.Warnings = []string{"partial response: store-3 timed out"}
	quietlyWarned := Result{Kind: KindVector, Warnings: warned.Warnings}
	mixed := vector(1)
	mixed.Series = append(mixed.Series, Series{Histogram: true})
	cases := map[string]struct {
		answer Result
		reduce api.Reducer
		want   said
	}{
		"a value that passes":               {vector(0.995), "", said{OutcomePass, "passes value >= 0.99"}},
		"a value that fails":                {vector(0.5), "", said{OutcomeFail, "fails: value < 0.95"}},
		"a value between the limits":        {vector(0.97), "", said{OutcomeInconclusive, "neither passWhen"}},
		"a scalar":                          {Result{Kind: KindScalar, Series: vector(1).Series}, "", said{OutcomePass, "passes"}},
		"a scalar NaN":                      {Result{Kind: KindScalar, Series: vector(nan).Series}, "", said{OutcomeNoData, "NaN"}},
		"a string":                          {Result{Kind: KindString, Text: "1"}, "", said{OutcomeError, "string"}},
		"an empty vector":                   {vector(), "", said{OutcomeNoData, "no series"}},
		"an empty matrix":                   {Result{Kind: KindMatrix}, "", said{OutcomeNoData, "no series"}},
		"a matrix of series without points": {Result{Kind: KindMatrix, Series: []Series{{}}}, "", said{OutcomeNoData, "NaN"}},
		"an answer of no kind":              {Result{}, "", said{OutcomeError, "and not a vector, matrix, scalar or string"}},
		"NaN":                               {vector(nan), "", said{OutcomeNoData, "NaN"}},
		"a marker of a stale series":        {vector(staleMarker()), "", said{OutcomeNoData, "NaN"}},
		"+Inf":                              {vector(inf), "", said{OutcomeError, "+Inf"}},
		"-Inf":                              {vector(-inf), "", said{OutcomeError, "-Inf"}},
		"+Inf among others":                 {vector(1, inf), "min", said{OutcomeError, "+Inf"}},
		"native histograms":                 {histogram, "", said{OutcomeError, "histogram_quantile"}},
		"native histograms among floats":    {mixed, "max", said{OutcomeError, "histogram_quantile"}},
		"a warning":                         {warned, "", said{OutcomeError, "store-3 timed out"}},
		"a warning without series":          {quietlyWarned, "", said{OutcomeError, "store-3 timed out"}},
		"several series without a reducer":  {vector(1, 1), "", said{OutcomeError, "set reduce"}},
		"several series, all but one without data": {vector(nan, 1, nan), "", said{OutcomePass, "passes"}},
		"several series, all without data":         {vector(nan, nan), "max", said{OutcomeNoData, "NaN"}},
		"a matrix with several points":             {matrix(1, 1), "", said{OutcomeError, "set reduce"}},
		"a matrix with one point":                  {matrix(1), "", said{OutcomePass, "passes"}},
		"a matrix, reduced":                        {matrix(1, 0.9, staleMarker()), "min", said{OutcomeFail, "0.9"}},
		"max":                                      {vector(0.5, 1), "max", said{OutcomePass, "1"}},
		"min":                                      {vector(0.5, 1), "min", said{OutcomeFail, "0.5"}},
		"sum":                                      {vector(0.5, 0.5), "sum", said{OutcomePass, "1"}},
		"avg":                                      {vector(0.94, 1), "avg", said{OutcomeInconclusive, "0.97"}},
		"all, one fails":                           {vector(1, 0.5, 1), "all", said{OutcomeFail, "1 of 3 values"}},
		"all, one is between":                      {vector(1, 0.97, 1), "all", said{OutcomeInconclusive, "1 of 3 values"}},
		"all pass":                                 {vector(1, 1), "all", said{OutcomePass, "2 of 2 values"}},
		"any, one passes":                          {vector(0.5, 1, 0.5), "any", said{OutcomePass, "1 of 3 values"}},
		"any, one is between":                      {vector(0.5, 0.97), "any", said{OutcomeInconclusive, "1 of 2 values"}},
		"any, every one fails":                     {vector(0.5, 0.5), "any", said{OutcomeFail, "2 of 2 values"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := parsed(t, aDefinition(func(d *api.Metric) { d.Reduce = c.reduce }))
			got := m.Measure(begin(), Answers{Value: c.answer})
			if diff := cmp.Diff(c.want, heard(got, c.want.Word)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Missing counts mean different things. Without errors the counter of errors may be absent; without requests there is nothing to compare.
func TestWhatOddCountsMean(t *testing.T) {
	t.Parallel()
	good := func() Answers {
		return Answers{CanaryBad: vector(1), CanaryTotal: vector(100, 50), StableBad: vector(2), StableTotal: vector(300)}
	}
	cases := map[string]struct {
		change func(*Answers)
		want   said
		counts *Counts
	}{
		"all there, several series are added up": {func(*Answers) {}, said{}, &Counts{1, 150, 2, 300}},
		"no series of errors":                    {func(a *Answers) { a.CanaryBad = vector() }, said{}, &Counts{0, 150, 2, 300}},
		"errors are NaN":                         {func(a *Answers) { a.CanaryBad = vector(math.NaN()) }, said{}, &Counts{0, 150, 2, 300}},
		"no series of the canary's requests":     {func(a *Answers) { a.CanaryTotal = vector() }, said{OutcomeNoData, "canary received no requests"}, nil},
		"no series of the stable requests":       {func(a *Answers) { a.StableTotal = vector() }, said{OutcomeNoData, "nothing to compare"}, nil},
		"requests are NaN":                       {func(a *Answers) { a.StableTotal = vector(math.NaN()) }, said{OutcomeNoData, "About stableTotal"}, nil},
		"a count below 0":                        {func(a *Answers) { a.StableBad = vector(-1) }, said{OutcomeError, "never falls below 0"}, nil},
		"an infinite count":                      {func(a *Answers) { a.StableBad = vector(math.Inf(1)) }, said{OutcomeError, "+Inf"}, nil},
		"more bad requests than requests":        {func(a *Answers) { a.CanaryBad = vector(200) }, said{OutcomeError, "more requests than canaryTotal"}, nil},
		"a few more, by extrapolation":           {func(a *Answers) { a.CanaryBad = vector(155) }, said{}, &Counts{150, 150, 2, 300}},
		"a warning about errors":                 {func(a *Answers) { a.CanaryBad = Result{Kind: KindVector, Warnings: []string{"half"}} }, said{OutcomeError, "half"}, nil},
		"no answer at all":                       {func(a *Answers) { a.CanaryBad = Result{} }, said{OutcomeError, "and not a vector, matrix, scalar or string"}, nil},
		"a string":                               {func(a *Answers) { a.CanaryBad = Result{Kind: KindString, Text: "1"} }, said{OutcomeError, "string"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := good()
			c.change(&a)
			got := parsed(t, aComparison()).Measure(begin(), a)
			if diff := cmp.Diff(c.want, heard(got, c.want.Word)); diff != "" {
				t.Error(diff)
			}
			if got.Outcome == "" {
				if diff := cmp.Diff(c.counts, got.Counts); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestTooFewRequestsAreNoVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples Result
		want    said
	}{
		"enough, in two series":  {vector(60, 40), said{OutcomeFail, "fails"}},
		"too few":                {vector(99), said{OutcomeNoData, "99 requests, fewer than the 100"}},
		"none":                   {vector(), said{OutcomeNoData, "0 requests"}},
		"NaN":                    {vector(math.NaN()), said{OutcomeNoData, "0 requests"}},
		"a query that is broken": {Result{Kind: KindString}, said{OutcomeError, "About minSamples"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := parsed(t, aDefinition(func(d *api.Metric) {
				d.MinSamples = &api.MinSamples{Query: "sum(increase(all[1m]))", AtLeast: 100}
			}))
			got := m.Measure(begin(), Answers{Value: vector(0.1), Samples: c.samples})
			if diff := cmp.Diff(c.want, heard(got, c.want.Word)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
