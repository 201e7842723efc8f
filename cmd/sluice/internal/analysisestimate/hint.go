package analysisestimate

import (
	"fmt"
	"slices"
)

// fewBad is the number of expected bad requests below which a step is short.
const fewBad = 10

const (
	evenly = "These times are medians for bad requests that come evenly. If bad requests come in bursts, a decision takes longer; docs/analysis.md says how long."
	adding = "On average, an interval has less than 1 bad request of both versions together. This is fine: the comparison adds up the requests of all intervals."
)

// newHints returns the hints that apply.
func (r Report) newHints() (hints []string) {
	o := r.Options
	step, bad, missed := durationText(o.Step.Duration()), o.requests(o.Step.Duration(), hinted).CanaryBad, r.missedInStep()
	switch {
	case o.Step < o.Interval:
		hints = append(hints, fmt.Sprintf("The step of %s ends before the first interval of %s, so nothing is compared in it. Lengthen the step, or shorten the interval.",
			step, durationText(o.Interval.Duration())))
	case bad < fewBad && missed > 0:
		hints = append(hints, fmt.Sprintf("In the step of %s, a canary with %d times the errors has %s bad requests, which is few. The comparison is blind there: it misses most canaries with up to %g times the errors. "+
			"Lengthen the step, or raise the weight.", step, hinted, numberText(bad), missed))
	}
	if hint := r.intervalHint(); hint != "" {
		hints = append(hints, hint)
	}
	if r.Interval.CanaryBad+r.Interval.StableBad < 1 {
		hints = append(hints, adding)
	}
	return append(hints, evenly)
}

// usual is the interval that fits most metrics, if Prometheus scrapes every few seconds.
const usual = Seconds(30)

// intervalHint says how much sooner a canary with ten times the errors fails with the usual interval; empty unless it is in half the time.
func (r Report) intervalHint() string {
	if r.Options.Interval <= usual {
		return ""
	}
	shorter := r.Options
	shorter.Interval = usual
	quick := shorter.after(shorter.firstTick(shorter.past(), 10, shorter.fails))
	if quick == 0 || slices.ContainsFunc(r.Worse, func(w Worse) bool { return w.Ratio == 10 && w.FailsAfter != nil && *w.FailsAfter < 2*quick }) {
		return ""
	}
	return fmt.Sprintf("With an interval of %s, a canary with 10 times the errors would fail after %s. Shorten the interval if Prometheus scrapes at least four times in it.",
		durationText(usual.Duration()), durationText(quick.Duration()))
}

// missedInStep returns the ratio before the least one that fails within the step; 0 if there is no such ratio.
func (r Report) missedInStep() (ratio float64) {
	for _, w := range r.Worse {
		if w.InStep {
			break
		}
		ratio = w.Ratio
	}
	return ratio
}
