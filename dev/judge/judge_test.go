package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

// Good canaries run for the whole time, so the test simulates few of them. Bad canaries fail soon, so the test simulates enough for a median.
const (
	fewRuns  = 100
	manyRuns = 200
)

// The test plays the rows that the classical tests play as well; the command plays all rows.
func TestTheAcceptanceTableHolds(t *testing.T) {
	t.Parallel()
	var outcomes []outcome
	for _, r := range rows() {
		if !r.classical {
			continue
		}
		r.classical = false
		runs := fewRuns
		if r.within > 0 {
			runs = manyRuns
		}
		outcomes = append(outcomes, playRow(r, runs, 1))
	}
	var out bytes.Buffer
	if missed := printTable(&out, outcomes); missed > 0 {
		t.Errorf("%d promises are not kept:\n%s", missed, out.String())
	}
}

// The classical tests behave as known: they fail one good canary in twenty, because they test repeatedly.
func TestOthersFailGoodCanaries(t *testing.T) {
	t.Parallel()
	o := playRow(rows()[0], fewRuns, 1)
	if ours, z, ranks := o.failed(0), o.failed(2), o.failed(3); ours > 0.01 || z < 0.02 || ranks < 0.02 {
		t.Errorf("of good canaries ours failed %g, z %g, Mann-Whitney %g", ours, z, ranks)
	}
}

func TestInjectedFaultsAreTold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	list := playFaults(10, 1)
	if len(list) < 200 {
		t.Errorf("%d cases, want at least 200", len(list))
	}
	if missed := printFaults(&out, list); missed > 0 {
		t.Errorf("%d goals are missed:\n%s", missed, out.String())
	}
}

// The table can fail. A judge that fails every canary breaks the promise for good canaries; a judge that fails none breaks the promise for bad ones.
func TestBrokenPromisesAreSeen(t *testing.T) {
	t.Parallel()
	always := make([][]time.Duration, len(judgeNames()))
	for i := range always {
		for range 100 {
			always[i] = append(always[i], look)
		}
	}
	good, bad := rows()[0], rows()[1]
	for name, c := range map[string]struct {
		outcome outcome
		want    int
	}{
		"good canaries that fail":     {outcome{row: good, runs: 100, times: always}, 1},
		"good canaries that do not":   {outcome{row: good, runs: 100, times: make([][]time.Duration, len(always))}, 0},
		"bad canaries that fail":      {outcome{row: bad, runs: 100, times: always}, 0},
		"bad canaries that do not":    {outcome{row: bad, runs: 100, times: make([][]time.Duration, len(always))}, 1},
		"half of bad canaries do not": {outcome{row: bad, runs: 200, times: always}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if got := printTable(&out, []outcome{c.outcome}); got != c.want || strings.Contains(out.String(), "MISSED") != (c.want > 0) {
				t.Errorf("missed %d, want %d:\n%s", got, c.want, out.String())
			}
		})
	}
}

func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	var texts [2]bytes.Buffer
	for i := range texts {
		printTable(&texts[i], playRows(rows()[3:5], 20, 7))
		printFaults(&texts[i], playFaults(1, 7))
		printPasses(&texts[i], playPasses(5, 7))
	}
	if texts[0].String() != texts[1].String() {
		t.Errorf("the same seed gave\n%s\nand\n%s", texts[0].String(), texts[1].String())
	}
}

// This is Mann and Whitney's statistic of samples without ties, computed by hand: U = 8 of 9, so z = 3.5/sqrt(5.25).
func TestMannWhitneyIsTheTextbooks(t *testing.T) {
	t.Parallel()
	m := mannWhitney{canary: []float64{3, 5, 6}, stable: []float64{1, 2, 4}}
	if z := m.z(); z < 1.527 || z > 1.528 {
		t.Errorf("z is %g, want 1.5275", z)
	}
	same := mannWhitney{canary: []float64{1, 1, 1}, stable: []float64{1, 1, 1}}
	if z := same.z(); z != 0 {
		t.Errorf("z of equal samples is %g", z)
	}
}

func TestTheZTestIsTheTextbooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  float64
		want bool
	}{
		"20 against 10 of 1000 is not enough": {20, false},
		"26 against 10 of 1000 is":            {26, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (&zTest{}).fails(look, analysis.Counts{CanaryBad: c.bad, CanaryTotal: 1000, StableBad: 10, StableTotal: 1000}); got != c.want {
				t.Errorf("fails is %t", got)
			}
		})
	}
}
