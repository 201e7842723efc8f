package analysis

import (
	"fmt"
	"math"
)

// Counts are the requests of both groups in one tick, and the bad ones among them: failed, or slower than a bound. They may be fractions, because
// Prometheus extrapolates.
type Counts struct {
	CanaryBad, CanaryTotal, StableBad, StableTotal float64
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.CanaryBad + o.CanaryBad, c.CanaryTotal + o.CanaryTotal, c.StableBad + o.StableBad, c.StableTotal + o.StableTotal}
}

// dividedLike reports whether the canary has about the same share of the requests in both counts: up to a third more or less, and three standard
// deviations of chance.
func (c Counts) dividedLike(o Counts) bool {
	chance := math.Sqrt(1/c.CanaryTotal + 1/c.StableTotal + 1/o.CanaryTotal + 1/o.StableTotal)
	return math.Abs(math.Log(c.CanaryTotal/c.StableTotal*o.StableTotal/o.CanaryTotal)) < 0.3+3*chance
}

// extrapolated is the highest accepted ratio of bad requests to all requests. A small excess comes from scrapes between two increments, a larger one
// from a mistake in the queries.
const extrapolated = 1.2

// checkComparable returns counts that can be compared. Otherwise it returns an outcome and a sentence with the reason.
func (c Counts) checkComparable() (Counts, Outcome, string) {
	for _, part := range []struct {
		name  string
		count float64
	}{{"canaryBad", c.CanaryBad}, {"canaryTotal", c.CanaryTotal}, {"stableBad", c.StableBad}, {"stableTotal", c.StableTotal}} {
		if n := part.count; n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
			return c, OutcomeError, fmt.Sprintf("The query %s counted %g requests; let it count with increase(), which never falls below 0.", part.name, n)
		}
	}
	switch {
	case c.CanaryTotal == 0:
		return c, OutcomeNoData, "The canary received no requests; check that traffic reaches it, and that it is scraped."
	case c.StableTotal == 0:
		return c, OutcomeNoData, "The stable group received no requests, so there is nothing to compare with; check that it is scraped."
	case c.CanaryBad > c.CanaryTotal*extrapolated+1:
		return c, OutcomeError, "The query canaryBad counted more requests than canaryTotal; let both count the same requests."
	case c.StableBad > c.StableTotal*extrapolated+1:
		return c, OutcomeError, "The query stableBad counted more requests than stableTotal; let both count the same requests."
	}
	c.CanaryBad, c.StableBad = min(c.CanaryBad, c.CanaryTotal), min(c.StableBad, c.StableTotal)
	return c, "", ""
}

// sumCounts adds up the series of one answer. No series is a count of 0: a counter of errors often exists only after the first error.
func sumCounts(r Result) (float64, Outcome, string) {
	if len(r.Series) == 0 && len(r.Warnings) == 0 && (r.Kind == KindVector || r.Kind == KindMatrix) {
		return 0, "", ""
	}
	list, outcome, message := numbersOf(r)
	return ReduceSum.reduceValues(list), outcome, message
}
