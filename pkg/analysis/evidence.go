package analysis

import "math"

// Evidence measures whether the canary has a higher rate of bad requests than the stable group. For the bad requests of each tick, it compares the
// canary's share with its share of all requests. An event that affects both groups at once cancels out, and neither group's rate has to be known.
//
// The hypotheses are "no worse" and "worse by this ratio", each with steady errors or with bursts. Each has the log of its likelihood relative to "no
// worse, steady". The evidence of a worse canary is the mean likelihood of the hypotheses "worse", divided by the greatest likelihood of a hypothesis
// "no worse". If one hypothesis "no worse" is true, its own likelihood as the divisor gives a test martingale. By Ville's inequality, the chance that
// it ever reaches 1/alpha is then at most alpha, at any number of looks. This is universal inference (Wasserman, Ramdas and Balakrishnan, 2020). The
// greatest divisor makes the quotient only smaller. Bursts weigh less in the divisor until they show, see logNoWorse. Only there does a measured
// chance replace a proven one.
//
// All fields are sums over ticks, so evidence may be stored, continued, and added up over clusters. The zero value is no evidence.
type Evidence struct {
	// Steady has the ratios of "worse" without bursts; Calm has "no worse" with bursts of each kind; Bursty has "worse" with bursts.
	Steady [ratios]float64         `json:"steady"`
	Calm   [bursts]float64         `json:"calm"`
	Bursty [bursts][ratios]float64 `json:"bursty"`
	// Uneven is, for each kind of bursts, the log of a likelihood ratio: bursts against a steady rate of bad requests in both groups together.
	Uneven [bursts]float64 `json:"uneven"`
	// Sum counts all requests compared.
	Sum Counts `json:"sum"`
	// Ticks counts the ticks with requests in both groups.
	Ticks int `json:"ticks"`
}

// AddTick adds the counts of one tick, which must be valid and have requests in both groups. tolerate is the highest rate ratio that counts as no
// worse.
func (e Evidence) AddTick(c Counts, tolerate float64) Evidence {
	e.addUneven(c)
	e.Sum.CanaryBad += c.CanaryBad
	e.Sum.CanaryTotal += c.CanaryTotal
	e.Sum.StableBad += c.StableBad
	e.Sum.StableTotal += c.StableTotal
	e.Ticks++
	if c.CanaryBad+c.StableBad == 0 {
		return e
	}
	l, chances := newLikelihood(c.CanaryBad, c.StableBad, tolerate*c.CanaryTotal/c.StableTotal), latticeOnce()
	for i := range ratios {
		addRounded(&e.Steady[i], l.logSteady(ratioShift+i))
	}
	for k := range bursts {
		addRounded(&e.Calm[k], l.logBursty(&chances[k], 0))
		for i := range ratios {
			addRounded(&e.Bursty[k][i], l.logBursty(&chances[k], ratioShift+i))
		}
	}
	return e
}

// addRounded keeps six decimals, because the sums are stored as text.
func addRounded(sum *float64, v float64) { *sum = math.Round((*sum+v)*1e6) / 1e6 }

// addUneven predicts the number of bad requests in a tick from earlier ticks, with and without bursts, and adds the gain of the bursts. The
// comparison itself is conditional on this number, so the number may set the weight of the bursts.
func (e *Evidence) addUneven(c Counts) {
	before := e.Sum.CanaryTotal + e.Sum.StableTotal
	if before == 0 {
		return
	}
	n, known := c.CanaryBad+c.StableBad, e.Sum.CanaryBad+e.Sum.StableBad+0.5
	mean := known / before * (c.CanaryTotal + c.StableTotal)
	both := math.Pow(c.CanaryTotal+c.StableTotal, 2) / (c.CanaryTotal*c.CanaryTotal + c.StableTotal*c.StableTotal)
	steady := negativeBinomial(n, mean, known)
	for k, b := range burstKinds() {
		addRounded(&e.Uneven[k], negativeBinomial(n, mean, 1/(1/(b.shape*both)+1/known))-steady)
	}
}

// negativeBinomial is the log probability of n events, with the given mean, whose rate is gamma distributed.
func negativeBinomial(n, mean, shape float64) float64 {
	return logGamma(n+shape) - logGamma(shape) - logGamma(n+1) + shape*math.Log(shape/(shape+mean)) + n*math.Log(mean/(shape+mean))
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

const (
	// leastOdds is the least weight of a kind of bursts, however evenly errors came so far.
	leastOdds = 0.01
	// steadyPrior is the weight of steady errors among the hypotheses "worse".
	steadyPrior = 0.8
)

// LogWorse is the log of the evidence that the canary is worse. For a canary that is not worse, the chance that it ever reaches the log of 1/alpha is
// at most alpha.
func (e Evidence) LogWorse() float64 {
	terms := make([]float64, 0, ratios*(1+bursts))
	for _, v := range e.Steady {
		terms = append(terms, v+math.Log(steadyPrior/ratios))
	}
	for k := range bursts {
		for _, v := range e.Bursty[k] {
			terms = append(terms, v+math.Log((1-steadyPrior)/bursts/ratios))
		}
	}
	return logSum(terms) - e.logNoWorse()
}

// logNoWorse is the log likelihood of the best hypothesis "no worse", each weighed by its odds. The odds are the prior odds times the evidence of the
// number of bad requests, and at most 1. Steady errors always weigh 1, so for them the chance of a false alarm is at most alpha. Bursts soon show,
// and weigh 1 from then on. Without the odds, the detection of a canary with ten times the errors would take 70 s instead of 40 s. dev/judge measures
// the remaining false alarms among the first bursts. Their chance is at most alpha/leastOdds.
func (e Evidence) logNoWorse() float64 {
	best := 0.0
	for k, b := range burstKinds() {
		odds := min(0, e.Uneven[k]+math.Log(b.prior))
		best = max(best, e.Calm[k]+max(math.Log(leastOdds), odds))
	}
	return best
}

// RulesOut reports whether a canary that is worse by this ratio explains the requests no better than one that is not, with or without bursts. It
// rounds the ratio to the nearest one of the lattice.
func (e Evidence) RulesOut(ratio float64) bool {
	i := min(ratios-1, max(0, ratioIndex(ratio)))
	worse := e.Steady[i]
	for k := range bursts {
		worse = max(worse, e.Bursty[k][i])
	}
	return worse <= max(0, maxOf(e.Calm))
}

// Ratio is the canary's rate of bad requests divided by the stable group's, smoothed by half a bad request in each.
func (e Evidence) Ratio() float64 {
	return (e.Sum.CanaryBad + 0.5) / (e.Sum.StableBad + 0.5) * e.Sum.StableTotal / e.Sum.CanaryTotal
}

func maxOf(list [bursts]float64) float64 {
	top := list[0]
	for _, v := range list {
		top = max(top, v)
	}
	return top
}

func logSum(terms []float64) float64 {
	top := math.Inf(-1)
	for _, t := range terms {
		top = max(top, t)
	}
	sum := 0.0
	for _, t := range terms {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum)
}
