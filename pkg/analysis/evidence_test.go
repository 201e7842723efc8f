package analysis

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

const tick = 10 * time.Second

// pastOf is a past of six hours with 100 requests a second. The share of bad ones in each block of minutes is its turn's.
func pastOf(minutes int, shares ...float64) Past {
	var ticks []Tick
	for at := range int(PastLength(tick, longestBurst) / PastStep(tick, longestBurst)) {
		total := 100 * PastStep(tick, longestBurst).Seconds()
		block := at * int(PastStep(tick, longestBurst)/time.Second) / (60 * minutes)
		ticks = append(ticks, Tick{Bad: math.Round(total * shares[block%len(shares)]), Total: total})
	}
	return NewPast(ticks, tick, longestBurst)
}

// steadyEvidence assumes that bad requests come steadily.
func steadyEvidence() Evidence { return Evidence{Past: NewPast(nil, tick, 0), Tolerate: 1} }

// gathered is the evidence of the same tick, repeated.
func (e Evidence) gathered(ticks int, c Counts) Evidence {
	for range ticks {
		e = e.AddTick(c)
	}
	return e
}

func TestWhatTheEvidenceSays(t *testing.T) {
	t.Parallel()
	decided := math.Log(100)
	steady := steadyEvidence()
	even := Evidence{Past: pastOf(1, 0.001), Tolerate: 1}
	bursty := Evidence{Past: pastOf(1, 0, 0, 0, 0.05, 0, 0, 0.02), Tolerate: 1}
	long := Evidence{Past: pastOf(5, 0, 0, 0, 0.05, 0, 0, 0.02), Tolerate: 1}
	for name, c := range map[string]struct {
		evidence Evidence
		worse    bool
		rulesOut bool
	}{
		"nothing seen":                                                          {steady, false, false},
		"no bad requests":                                                       {steady.gathered(60, Counts{0, 500, 0, 500}), false, true},
		"as many bad requests":                                                  {steady.gathered(60, Counts{5, 500, 5, 500}), false, true},
		"fewer":                                                                 {steady.gathered(60, Counts{1, 500, 5, 500}), false, true},
		"ten times as many, in one tick":                                        {steady.gathered(1, Counts{5, 500, 0.5, 500}), false, false},
		"ten times as many, in five ticks":                                      {steady.gathered(5, Counts{5, 500, 0.5, 500}), true, false},
		"three times as many, in five ticks":                                    {steady.gathered(5, Counts{1.5, 500, 0.5, 500}), false, false},
		"three times as many, in thirty ticks":                                  {steady.gathered(30, Counts{1.5, 500, 0.5, 500}), true, false},
		"a tenth more bad requests in the canary, of many":                      {steady.gathered(100, Counts{550, 50000, 500, 50000}), false, true},
		"the canary's share of one in twenty":                                   {steady.gathered(60, Counts{1, 50, 19, 950}), false, true},
		"three times that share":                                                {steady.gathered(60, Counts{3, 50, 19, 950}), true, false},
		"all requests of both are bad":                                          {steady.gathered(60, Counts{500, 500, 500, 500}), false, true},
		"after an even past, ten times as many, in five ticks":                  {even.gathered(5, Counts{5, 500, 0.5, 500}), true, false},
		"after an even past, three times as many, in thirty ticks":              {even.gathered(30, Counts{1.5, 500, 0.5, 500}), true, false},
		"after an even past, a canary that hardly answers, in two ticks":        {even.gathered(2, Counts{400, 500, 0.5, 500}), true, false},
		"after bursts, ten times as many, in five ticks":                        {bursty.gathered(5, Counts{50, 500, 5, 500}), false, false},
		"after bursts, ten times as many, in twenty minutes":                    {bursty.gathered(120, Counts{50, 500, 5, 500}), true, false},
		"after bursts, as many":                                                 {bursty.gathered(120, Counts{5, 500, 5, 500}), false, true},
		"after bursts, one burst of the canary, however strong":                 {bursty.gathered(30, Counts{1, 500, 1, 500}).gathered(3, Counts{500, 500, 1, 500}), false, false},
		"after bursts as long as blocks, ten times as many, in ten minutes":     {long.gathered(60, Counts{50, 500, 5, 500}), false, false},
		"after bursts as long as blocks, ten times as many for an hour, evenly": {long.gathered(360, Counts{50, 500, 5, 500}), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odds := c.evidence.Odds()
			if got := odds.LogWorse() >= decided; got != c.worse {
				t.Errorf("worse is %t: %g of %g", got, odds.LogWorse(), decided)
			}
			if got := c.evidence.RulesOut(1.5, 2000); got != c.rulesOut {
				t.Errorf("ruling out a ratio of 1.5 is %t", got)
			}
		})
	}
}

func TestATolerableRatioIsNoWorse(t *testing.T) {
	t.Parallel()
	strict, lenient := steadyEvidence(), steadyEvidence()
	lenient.Tolerate = 2
	c := Counts{3, 500, 1.5, 500}
	if strict, lenient := strict.gathered(60, c).Odds().LogWorse(), lenient.gathered(60, c).Odds().LogWorse(); strict < math.Log(100) || lenient > 0 {
		t.Errorf("twice as many errors: evidence %g, and %g where that is tolerated", strict, lenient)
	}
}

// A step changes the division of the traffic inside a block. Each part is compared with its own division.
func TestAStepOfTrafficIsNoEvidence(t *testing.T) {
	t.Parallel()
	e := Evidence{Past: pastOf(1, 0.01), Tolerate: 1}.gathered(20, Counts{5, 50, 95, 950}).gathered(20, Counts{50, 500, 50, 500})
	if worse := e.Odds().LogWorse(); worse > 0 {
		t.Errorf("evidence of %g", worse)
	}
	if len(e.Long.Open) != 2 {
		t.Errorf("%d parts, want 2: %v", len(e.Long.Open), e.Long.Open)
	}
}

// sumOdds adds up the odds of two clusters.
func sumOdds(o, other Odds) Odds {
	for i, v := range other {
		o[i] += v
	}
	return o
}

// Three clusters see together what none of them sees alone.
func TestClustersSeeMoreTogether(t *testing.T) {
	t.Parallel()
	one := Evidence{Past: pastOf(1, 0.001), Tolerate: 1}.gathered(10, Counts{1.5, 500, 0.5, 500}).Odds()
	if alone, all := one.LogWorse(), sumOdds(one, sumOdds(one, one)).LogWorse(); alone >= math.Log(100) || all < math.Log(100) {
		t.Errorf("one has evidence of %g, and three of %g", alone, all)
	}
}

// Odds of two clusters add up: two clusters with the same counts have twice the evidence for each ratio. For any counts and any past, evidence is a number.
func TestOddsAddUp(t *testing.T) {
	t.Parallel()
	count := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.Float64Range(0, 10), rapid.Just(0.0))
	counts := rapid.Custom(func(t *rapid.T) Counts {
		c := Counts{CanaryTotal: 0.01 + count.Draw(t, "canary"), StableTotal: 0.01 + count.Draw(t, "stable")}
		c.CanaryBad = min(c.CanaryTotal, count.Draw(t, "canary bad"))
		c.StableBad = min(c.StableTotal, count.Draw(t, "stable bad"))
		return c
	})
	pasts := rapid.Custom(func(t *rapid.T) Past {
		ticks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Tick {
			total := count.Draw(t, "total")
			return Tick{Bad: min(total, count.Draw(t, "bad")), Total: total}
		}), 0, 400).Draw(t, "ticks")
		return NewPast(ticks, time.Duration(rapid.IntRange(1, 86400).Draw(t, "interval"))*time.Second, time.Duration(rapid.IntRange(0, 3600).Draw(t, "burst"))*time.Second)
	})
	rapid.Check(t, func(t *rapid.T) {
		e := Evidence{Past: pasts.Draw(t, "past"), Tolerate: 1}
		for _, c := range rapid.SliceOfN(counts, 0, 12).Draw(t, "counts") {
			e = e.AddTick(c)
		}
		odds := e.Odds()
		if v := odds.LogWorse(); math.IsNaN(v) || math.IsInf(v, 1) {
			t.Fatalf("evidence of %g", v)
		}
		twice := sumOdds(odds, odds)
		if odds.LogWorse() > math.Log(ratios) && twice.LogWorse() < odds.LogWorse() {
			t.Fatalf("two clusters have evidence of %g, and each alone of %g", twice.LogWorse(), odds.LogWorse())
		}
		data, err := State{Version: stateVersion, Evidence: &e}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		s, err := DecodeState(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, *s.Evidence, cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Under "no worse, steady" the mean of the likelihood ratio of any hypothesis is 1. The bound at any time follows from that.
func TestALikelihoodRatioIsAMartingale(t *testing.T) {
	t.Parallel()
	const canary, stable = 100.0, 300.0
	theta := canary / (canary + stable)
	past := pastOf(1, 0.001)
	for n := 1.0; n <= 12; n++ {
		var means [2]hypotheses
		for x := 0.0; x <= n; x++ {
			p := math.Exp(logGamma(n+1) - logGamma(x+1) - logGamma(n-x+1) + x*math.Log(theta) + (n-x)*math.Log(1-theta))
			steady, own := Evidence{Past: past, Tolerate: 1}.AddTick(Counts{x, canary, n - x, stable}).Long.sum(Evidence{Past: past, Tolerate: 1})
			for i := range steady {
				means[0][i] += p * math.Exp(steady[i])
				means[1][i] += p * math.Exp(own[i])
			}
		}
		for kind, list := range means {
			for i, mean := range list {
				if math.Abs(mean-1) > 1e-4 {
					t.Errorf("kind %d, ratio %g, %g bad requests: a mean of %g", kind, ratioAt(i), n, mean)
				}
			}
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	e := Evidence{Past: pastOf(1, 0.001), Tolerate: 1}
	for b.Loop() {
		e = e.AddTick(Counts{5, 500, 3, 500})
		_ = e.Odds().LogWorse()
	}
}

func BenchmarkNewPast(b *testing.B) {
	var ticks []Tick
	for i := range 720 {
		ticks = append(ticks, Tick{Bad: float64(i * i % 17), Total: 3000})
	}
	for b.Loop() {
		NewPast(ticks, 30*time.Second, longestBurst)
	}
}
