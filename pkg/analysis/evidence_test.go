package analysis

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// gathered is the evidence of the same tick, repeated.
func gathered(ticks int, c Counts) Evidence {
	var e Evidence
	for range ticks {
		e = e.AddTick(c, 1)
	}
	return e
}

func TestWhatTheEvidenceSays(t *testing.T) {
	t.Parallel()
	decided := math.Log(100)
	for name, c := range map[string]struct {
		evidence Evidence
		worse    bool
		rulesOut bool
	}{
		"nothing seen":                            {Evidence{}, false, true},
		"no bad requests":                         {gathered(60, Counts{0, 500, 0, 500}), false, true},
		"as many bad requests":                    {gathered(60, Counts{5, 500, 5, 500}), false, true},
		"fewer":                                   {gathered(60, Counts{1, 500, 5, 500}), false, true},
		"ten times as many, in one tick":          {gathered(1, Counts{5, 500, 0.5, 500}), false, false},
		"ten times as many, in five ticks":        {gathered(5, Counts{5, 500, 0.5, 500}), true, false},
		"three times as many, in five ticks":      {gathered(5, Counts{1.5, 500, 0.5, 500}), false, false},
		"three times as many, in thirty ticks":    {gathered(30, Counts{1.5, 500, 0.5, 500}), true, false},
		"a tenth more, whatever the traffic":      {gathered(100, Counts{550, 50000, 500, 50000}), false, true},
		"the canary's share of one in twenty":     {gathered(60, Counts{1, 50, 19, 950}), false, true},
		"three times that share":                  {gathered(60, Counts{3, 50, 19, 950}), true, false},
		"all requests of both are bad":            {gathered(60, Counts{500, 500, 500, 500}), false, true},
		"one burst of the canary, however strong": {gathered(30, Counts{1, 500, 1, 500}).AddTick(Counts{500, 500, 1, 500}, 1), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.evidence.LogWorse() >= decided; got != c.worse {
				t.Errorf("worse is %t: %g of %g", got, c.evidence.LogWorse(), decided)
			}
			if got := c.evidence.RulesOut(1.5); got != c.rulesOut {
				t.Errorf("ruling out a ratio of 1.5 is %t", got)
			}
		})
	}
}

func TestATolerableRatioIsNoWorse(t *testing.T) {
	t.Parallel()
	var strict, lenient Evidence
	for range 60 {
		strict, lenient = strict.AddTick(Counts{3, 500, 1.5, 500}, 1), lenient.AddTick(Counts{3, 500, 1.5, 500}, 2)
	}
	if strict.LogWorse() < math.Log(100) || lenient.LogWorse() > 0 {
		t.Errorf("twice as many errors: evidence %g, and %g where that is tolerated", strict.LogWorse(), lenient.LogWorse())
	}
}

// sumEvidence adds up the evidence of two sets of requests with the same tolerance.
func sumEvidence(e, other Evidence) Evidence {
	for i := range ratios {
		addRounded(&e.Steady[i], other.Steady[i])
	}
	for k := range bursts {
		addRounded(&e.Calm[k], other.Calm[k])
		addRounded(&e.Uneven[k], other.Uneven[k])
		for i := range ratios {
			addRounded(&e.Bursty[k][i], other.Bursty[k][i])
		}
	}
	e.Sum.CanaryBad += other.Sum.CanaryBad
	e.Sum.CanaryTotal += other.Sum.CanaryTotal
	e.Sum.StableBad += other.Sum.StableBad
	e.Sum.StableTotal += other.Sum.StableTotal
	e.Ticks += other.Ticks
	return e
}

// Evidence of two clusters, or from before and after a restart, adds up. For any counts it is a number.
func TestEvidenceAddsUp(t *testing.T) {
	t.Parallel()
	counts := rapid.Custom(func(t *rapid.T) Counts {
		count := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.Float64Range(0, 10), rapid.Just(0.0))
		c := Counts{CanaryTotal: 0.01 + count.Draw(t, "canary"), StableTotal: 0.01 + count.Draw(t, "stable")}
		c.CanaryBad = min(c.CanaryTotal, count.Draw(t, "canary bad"))
		c.StableBad = min(c.StableTotal, count.Draw(t, "stable bad"))
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		var first, second, all Evidence
		for i, c := range rapid.SliceOfN(counts, 0, 12).Draw(t, "counts") {
			if i%2 == 0 {
				first = first.AddTick(c, 1)
			} else {
				second = second.AddTick(c, 1)
			}
			all = all.AddTick(c, 1)
		}
		if v := all.LogWorse(); math.IsNaN(v) || math.IsInf(v, 1) {
			t.Fatalf("evidence of %g", v)
		}
		ignored := cmpopts.IgnoreFields(Evidence{}, "Uneven") // each predicts it from its own ticks
		if diff := cmp.Diff(all, sumEvidence(first, second), ignored, cmpopts.EquateApprox(1e-9, 1e-4)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Under "no worse, steady" the mean of the likelihood ratio of any hypothesis is 1. The bound at any time follows from that.
func TestALikelihoodRatioIsAMartingale(t *testing.T) {
	t.Parallel()
	const canary, stable = 100.0, 300.0
	theta := canary / (canary + stable)
	for n := 1.0; n <= 12; n++ {
		var steady, calm, bursty float64
		for x := 0.0; x <= n; x++ {
			e := Evidence{}.AddTick(Counts{x, canary, n - x, stable}, 1)
			p := math.Exp(logGamma(n+1) - logGamma(x+1) - logGamma(n-x+1) + x*math.Log(theta) + (n-x)*math.Log(1-theta))
			steady += p * math.Exp(e.Steady[7])
			calm += p * math.Exp(e.Calm[1])
			bursty += p * math.Exp(e.Bursty[2][7])
		}
		for name, mean := range map[string]float64{"steady": steady, "calm": calm, "bursty": bursty} {
			if math.Abs(mean-1) > 1e-5 {
				t.Errorf("%s, %g bad requests: a mean of %g", name, n, mean)
			}
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	var e Evidence
	for b.Loop() {
		e = e.AddTick(Counts{5, 500, 3, 500}, 1)
		if e.LogWorse() > math.Log(100) {
			e = Evidence{}
		}
	}
}
