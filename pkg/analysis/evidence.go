package analysis

import (
	"math"
	"slices"
)

// Evidence measures whether the canary has a higher rate of bad requests than the stable group. For the bad requests of each block of ticks, it compares
// the canary's share with its share of all requests. An event that affects both groups at once cancels out, and neither group's rate has to be known.
//
// The hypotheses are "no worse" and "worse by this ratio". Each is either "steady", or "own bursts": in each block, and in each group on its own, a gamma
// variable multiplies the rate. How much it varies, and how fast that averages out over time, comes from the past of the stable group. A burst of several
// ticks is one event, so ticks are added up in blocks that are longer than bursts.
//
// The evidence of a worse canary is the mean likelihood of the hypotheses "worse", divided by the greatest likelihood of a hypothesis "no worse". If
// rates are steady and no bursts are expected, this is at most a test martingale. By Ville's inequality, the chance that it ever reaches 1/alpha is then
// at most alpha, at any number of looks. This is universal inference (Wasserman, Ramdas and Balakrishnan, 2020). With bursts the chance is measured
// (dev/judge): the past only estimates them. Without a past that is long enough, nothing is decided.
//
// All sums are over blocks, so evidence may be stored and continued.
type Evidence struct {
	// Past tells how unevenly bad requests come.
	Past Past `json:"past"`
	// Tolerate is the highest rate ratio that counts as no worse.
	Tolerate float64 `json:"tolerate"`
	// Long has blocks of at least twice the longest burst. Their sums decide.
	Long Blocks `json:"long"`
	// Short has blocks about as long as the bursts of the past. They tell whether bursts hit both groups together or each on its own.
	Short Blocks `json:"short,omitzero"`
	// Sum counts all requests compared.
	Sum Counts `json:"sum"`
	// Ticks counts the ticks with requests in both groups.
	Ticks int `json:"ticks"`
}

// AddTick adds the counts of one tick, which must be valid and have requests in both groups.
func (e Evidence) AddTick(c Counts) Evidence {
	e.Sum, e.Ticks = e.Sum.plus(c), e.Ticks+1
	e.Long = e.Long.addTick(c, e.Past.longestBlock(), e)
	if !e.hasOneLength() {
		e.Short = e.Short.addTick(c, 1<<e.Past.Burst, e)
	}
	return e
}

// hasOneLength reports whether long and short blocks are the same, so that the long ones serve for both.
func (e Evidence) hasOneLength() bool { return e.Past.longestBlock() == 1<<e.Past.Burst }

// Blocks adds up the log likelihoods of blocks of ticks.
type Blocks struct {
	Steady hypotheses `json:"steady,omitzero"`
	Own    hypotheses `json:"own,omitzero"`
	// Open is the block under way, with a part for each division of the traffic. Ticks is its length.
	Open  []Counts `json:"open,omitempty"`
	Ticks int      `json:"ticks,omitempty"`
}

// addTick adds a tick to the open block, and closes a block of this many ticks.
func (b Blocks) addTick(c Counts, size int, e Evidence) Blocks {
	b.Open = slices.Clone(b.Open)
	if alike := slices.IndexFunc(b.Open, c.dividedLike); alike >= 0 {
		b.Open[alike] = b.Open[alike].plus(c)
	} else {
		b.Open = append(b.Open, c)
	}
	if b.Ticks++; b.Ticks >= size {
		b.Steady, b.Own = b.sum(e)
		b.Open, b.Ticks = nil, 0
	}
	return b
}

// sum returns the log likelihoods of all blocks, including the one under way.
func (b Blocks) sum(e Evidence) (steady, own hypotheses) {
	steady, own = b.Steady, b.Own
	var all Counts
	for _, c := range b.Open {
		all = all.plus(c)
	}
	if all.CanaryBad+all.StableBad == 0 {
		return steady, own
	}
	l, d := newLikelihood(b.Open, e.Tolerate), e.Past.multipliers(b.Ticks, all)
	for i := range steady {
		steady[i] += l.logSteady(shiftAt(i))
		own[i] += l.logOwn(d, shiftAt(i))
	}
	return steady, own
}

const (
	// ruledOut is the log likelihood ratio after which one of "steady" and "own bursts" loses weight against the other.
	ruledOut = 5
	// leastKind is the log of the least weight of "steady" and of "own bursts".
	leastKind = -7
)

// kinds returns the log weights of "steady" and "own bursts", at most 0. Bursts that hit both groups together leave the division of the bad requests as
// steady rates do. Bursts of one group move it. So a kind loses weight once the other explains the division of short blocks much better.
func (e Evidence) kinds() (steady, own float64) {
	mean := func(h hypotheses) float64 { return logSumOf2(h[0], h.logWorse()) }
	short := e.Short
	if e.hasOneLength() {
		short = e.Long
	}
	lead := mean(short.Own) - mean(short.Steady)
	return min(0, max(leastKind, ruledOut-lead)), min(0, max(leastKind, ruledOut+lead))
}

// Odds are log likelihoods: first the best one of "no worse", then one for each ratio of "worse". Odds of clusters add up to the odds of a fleet.
type Odds hypotheses

// Odds returns the odds of the evidence.
func (e Evidence) Odds() Odds {
	steady, own := e.Long.sum(e)
	s, b := e.kinds()
	both := logSumOf2(s, b)
	odds := Odds{max(steady[0]+s, own[0]+b)}
	for i := 1; i < len(odds); i++ {
		odds[i] = logSumOf2(steady[i]+s, own[i]+b) - both
	}
	return odds
}

// LogWorse is the log of the evidence that the canary is worse. It is compared with the log of 1/alpha.
func (o Odds) LogWorse() float64 { return hypotheses(o).logWorse() - o[0] }

const (
	// mistaken is the highest likelihood ratio at which a canary with twice the ratio of passAfter passes.
	mistaken = 0.02
	// unseen is the highest chance of so few bad requests, and shown the number of them that so small a chance needs, if none comes.
	unseen = 0.005
	shown  = 5.3
	// few is the largest number of bad requests that may say by itself that a canary is fine.
	few = 100
	// leastSamples is the least number of requests that show what a rate is.
	leastSamples = 2000
)

// RulesOut reports whether a canary that is worse by this ratio explains the requests no better than a good one. Twice the ratio must also be next to
// impossible. It is, if the comparison says so, or if the canary would have had more bad requests at twice the ratio of the past. A rate of 5.3 in
// this many samples, or in 2,000 if they are fewer, is as good as none. RulesOut rounds the ratio to the nearest one of the lattice.
func (e Evidence) RulesOut(ratio, samples float64) bool {
	odds := e.Odds()
	if odds.LogWorse() > 0 || odds[ratioIndex(ratio)] > odds[0] {
		return false
	}
	return slices.Max(odds[ratioIndex(2*ratio):]) <= odds[0]+math.Log(mistaken) || e.isQuiet(2*ratio, samples)
}

// isQuiet reports whether a canary with this ratio to the past would have had more bad requests.
func (e Evidence) isQuiet(ratio, samples float64) bool {
	bad, total := e.Sum.CanaryBad, e.Sum.CanaryTotal
	none := shown / max(samples, leastSamples)
	switch expected := e.Past.Share * ratio * e.Tolerate; {
	case bad > few:
		return false
	case expected <= none:
		return atMost(bad, none*total, steadyShape) <= unseen
	default:
		w, smaller := e.Past.weights(e.Ticks, total)
		return w.atMost(bad, expected*total, smaller) <= unseen
	}
}

// Ratio is the canary's rate of bad requests divided by the stable group's, smoothed by half a bad request in each.
func (e Evidence) Ratio() float64 {
	return (e.Sum.CanaryBad + 0.5) / (e.Sum.StableBad + 0.5) * e.Sum.StableTotal / e.Sum.CanaryTotal
}

// logSumOf2 is the log of e^a + e^b.
func logSumOf2(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// logSum is the log of the sum of the exponentials.
func logSum(terms []float64) float64 {
	top := slices.Max(terms)
	sum := 0.0
	for _, t := range terms {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum)
}
