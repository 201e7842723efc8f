package analysis

import (
	"math"
	"slices"
	"sync"
)

// The comparison uses log odds on one lattice, so that every hypothesis uses the same few numbers, shifted.
const (
	latticeStep = 0.14
	// latticeHalf is how many points lie on each side of 0: bursts of a factor of e^9 on either side.
	latticeHalf = 64
	// Hypothesis 0 is "no worse". The rate ratios of the next ones are a point apart: from 1.3 to 18.9, and further up to 626, a canary that hardly answers.
	likelyRatios = 20
	ratios       = 45
)

// hypotheses holds a log likelihood for "no worse", followed by one for each ratio of "worse".
type hypotheses [1 + ratios]float64

// shiftAt is the shift of the ith hypothesis on the lattice.
func shiftAt(i int) int {
	if i == 0 {
		return 0
	}
	return i + 1
}

// ratioAt is the rate ratio of the ith hypothesis.
func ratioAt(i int) float64 { return math.Exp(latticeStep * float64(shiftAt(i))) }

// ratioIndex is the hypothesis "worse" with the nearest ratio.
func ratioIndex(ratio float64) int {
	return min(ratios, max(1, int(math.Round(math.Log(ratio)/latticeStep))-1))
}

// worsePrior holds the log weights of the hypotheses "worse".
var worsePrior = func() (w hypotheses) {
	const likely = 0.9
	for i := range w {
		w[i] = math.Log(likely / likelyRatios)
		if i > likelyRatios {
			w[i] = math.Log((1 - likely) / (ratios - likelyRatios))
		}
	}
	return w
}()

// logWorse is the log of the weighed mean likelihood of the hypotheses "worse".
func (h hypotheses) logWorse() float64 {
	for i := range h {
		h[i] += worsePrior[i]
	}
	return logSum(h[1:])
}

// distribution holds the probabilities of a log ratio of the two groups' multipliers, at the points of the lattice.
type distribution [2*latticeHalf + 1]float64

// lattice holds the distribution for two gamma variables of one shape, for the shapes 0.25 to 4096 in steps of the square root of 2. It is a logistic
// distribution of type III.
type lattice [2*shapes - 1]distribution

var latticeOnce = sync.OnceValue(func() *lattice {
	var l lattice
	for k := range l {
		shape, sum := shapeAt(0)*math.Exp2(float64(k)/2), 0.0
		for m := range l[k] {
			z := float64(m-latticeHalf) * latticeStep
			l[k][m] = math.Exp(shape * (z - 2*math.Log1p(math.Exp(z)) + 2*math.Ln2))
			sum += l[k][m]
		}
		for m := range l[k] {
			l[k][m] /= sum
		}
	}
	return &l
})

// likelihood has, at each point of log odds, the likelihood of the division of a block's bad requests between the groups. It is relative to the
// hypothesis "no worse, steady".
type likelihood struct {
	log, exp [2*latticeHalf + 2 + ratios]float64
	// top is the greatest of the logs. Outside of low to high, exp is as good as 0.
	top       float64
	low, high int
}

// newLikelihood takes the parts of a block, each with its own division of the traffic. tolerate is the highest rate ratio that counts as no worse.
func newLikelihood(parts []Counts, tolerate float64) *likelihood {
	l := &likelihood{}
	step := math.Exp(-latticeStep)
	for _, c := range parts {
		base := math.Log(tolerate * c.CanaryTotal / c.StableTotal)
		at := func(u, odds float64) float64 { // odds are the stable group's, e^-u
			p := -math.Log1p(odds) // the log of the canary's share; u less gives the log of the stable group's
			return c.CanaryBad*p + c.StableBad*(p-u)
		}
		null := at(base, math.Exp(-base))
		u := base - latticeHalf*latticeStep
		odds := math.Exp(-u)
		for m := range l.log {
			l.log[m] += at(u, odds) - null
			u, odds = u+latticeStep, odds*step
		}
	}
	l.top = slices.Max(l.log[:])
	const nothing = -40
	for l.low = 0; l.log[l.low] < l.top+nothing; l.low++ {
	}
	for l.high = len(l.log) - 1; l.log[l.high] < l.top+nothing; l.high-- {
	}
	for m := l.low; m <= l.high; m++ {
		l.exp[m] = math.Exp(l.log[m] - l.top)
	}
	return l
}

// logSteady is the log likelihood of a ratio whose groups have steady rates.
func (l *likelihood) logSteady(shift int) float64 { return l.log[latticeHalf+shift] }

// logOwn is the log likelihood of a ratio whose groups have bursts of their own.
func (l *likelihood) logOwn(d *distribution, shift int) float64 {
	sum := 0.0
	for m := max(0, l.low-shift); m <= min(len(d)-1, l.high-shift); m++ {
		sum += d[m] * l.exp[m+shift]
	}
	return math.Log(max(sum, math.SmallestNonzeroFloat64)) + l.top
}
