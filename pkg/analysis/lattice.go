package analysis

import (
	"math"
	"sync"
)

// The comparison uses log odds on one lattice, so that every hypothesis uses the same few numbers, shifted.
const (
	latticeStep = 0.14
	// latticeHalf is how many points lie on each side of 0: bursts of a factor of e^12 on either side.
	latticeHalf = 86
	// ratioShift is the shift of the smallest rate ratio that counts as worse; the others follow point by point: 1.3 to 18.9.
	ratioShift = 2
	ratios     = 20
)

// ratioAt is the rate ratio of the ith hypothesis "worse".
func ratioAt(i int) float64 { return math.Exp(latticeStep * float64(ratioShift+i)) }

// ratioIndex is the index of the hypothesis with the nearest ratio; it may lie outside the lattice.
func ratioIndex(ratio float64) int { return int(math.Round(math.Log(ratio)/latticeStep)) - ratioShift }

// bursts is the number of hypotheses about errors that come in bursts.
const bursts = 4

// burst is a hypothesis about bursts. In each tick, and in each group on its own, it multiplies the rate of bad requests by a gamma variable of this
// shape and mean 1. The smaller the shape, the heavier the bursts: shape 0.5 triples the standard deviation of a tick with 4 bad requests. prior is
// the prior odds of such bursts against steady errors.
type burst struct {
	shape, prior float64
}

// burstKinds and their priors keep the acceptance table of dev/judge. With all priors at 1, the analyzer fails good canaries less often still. But it
// then takes 70 s instead of 40 s to detect ten times as many errors.
func burstKinds() [bursts]burst { return [bursts]burst{{8, 0.1}, {2, 0.1}, {1, 0.2}, {0.5, 0.4}} }

// lattice holds, for each kind of burst, the distribution of the log ratio of the two groups' multipliers. It is a logistic distribution of type III,
// the distribution for two gamma variables of one shape.
type lattice [bursts][2*latticeHalf + 1]float64

var latticeOnce = sync.OnceValue(func() *lattice {
	var l lattice
	for k, b := range burstKinds() {
		sum := 0.0
		for m := range l[k] {
			z := float64(m-latticeHalf) * latticeStep
			l[k][m] = math.Exp(b.shape * (z - 2*math.Log1p(math.Exp(z))))
			sum += l[k][m]
		}
		for m := range l[k] {
			l[k][m] /= sum
		}
	}
	return &l
})

// likelihood has, at each point of log odds, the likelihood of the division of a tick's bad requests between the groups. It is relative to the
// hypothesis "no worse, no bursts".
type likelihood struct {
	log [2*latticeHalf + 1 + ratioShift + ratios]float64
	exp [2*latticeHalf + 1 + ratioShift + ratios]float64
	top float64
}

// newLikelihood takes the bad requests of both groups, and the odds that a bad request is the canary's if the canary is no worse.
func newLikelihood(canary, stable, odds float64) *likelihood {
	l := &likelihood{top: math.Inf(-1)}
	base := math.Log(odds)
	at := func(u float64) float64 {
		p := -math.Log1p(math.Exp(-u)) // the log of the canary's share; u less gives the log of the stable group's
		return canary*p + stable*(p-u)
	}
	null := at(base)
	for m := range l.log {
		l.log[m] = at(base+float64(m-latticeHalf)*latticeStep) - null
		l.top = max(l.top, l.log[m])
	}
	for m := range l.exp {
		l.exp[m] = math.Exp(l.log[m] - l.top)
	}
	return l
}

// logSteady is the log likelihood of a ratio without bursts.
func (l *likelihood) logSteady(shift int) float64 { return l.log[latticeHalf+shift] }

// logBursty is the log likelihood of a ratio with bursts of this distribution.
func (l *likelihood) logBursty(chances *[2*latticeHalf + 1]float64, shift int) float64 {
	sum := 0.0
	for m, w := range chances {
		sum += w * l.exp[m+shift]
	}
	return math.Log(max(sum, math.SmallestNonzeroFloat64)) + l.top
}
