package analysis

import (
	"fmt"
	"math"

	"sluice.dev/sluice/pkg/api"
)

// compareTick adds the requests of a tick to the evidence, and finds the outcome. It fails once the evidence of a worse canary is strong enough, and the
// past says how strong it must be. It passes while the evidence does not lean that way, and is inconclusive while it does.
func (s State) compareTick(m Measurement, spec Metric) (State, Measurement) {
	counts, bad := m.Counts, "bad"
	if spec.Compare.Latency != nil {
		if s, counts, m = s.countSlower(m, spec.Compare.Latency.Quantile); counts == nil {
			return s, m
		}
		bad = m.Message
	}
	evidence := s.Evidence.AddTick(*counts)
	s.Evidence = &evidence
	ratio := evidence.Ratio()
	m.Value = &ratio
	sum := fmt.Sprintf("%s of %s requests to the canary were %s, and %s of %s to the stable group",
		formatNumber(roundValue(evidence.Sum.CanaryBad)), formatNumber(roundValue(evidence.Sum.CanaryTotal)), bad, formatNumber(roundValue(evidence.Sum.StableBad)), formatNumber(roundValue(evidence.Sum.StableTotal)))
	if spec.Compare.Clusters > 1 {
		sum += fmt.Sprintf(" (alpha %g, as one of %d clusters)", spec.Compare.Alpha, spec.Compare.Clusters)
	}
	switch worse := evidence.Odds().LogWorse(); {
	case worse >= math.Log(1/spec.Compare.Alpha) && evidence.Past.IsEnough():
		m.Outcome, m.Message = OutcomeFail, fmt.Sprintf("The canary is worse than the stable group: %s, %s times the rate.", sum, formatNumber(roundValue(ratio*100)/100))
	case worse > 0:
		m.Outcome, m.Message = OutcomeInconclusive, fmt.Sprintf("The canary may be worse than the stable group: %s.%s", sum, s.pastText())
	default:
		m.Outcome, m.Message = OutcomePass, fmt.Sprintf("Nothing points to a worse canary: %s.%s", sum, s.pastText())
	}
	return s, m
}

func roundValue(v float64) float64 { return math.Round(v) }

// countSlower turns latencies into counts, with a bound that earlier requests of the stable group suggest. A bound from the counted requests
// themselves would favour one group. Nil counts mean that the measurement already has its outcome.
func (s State) countSlower(m Measurement, quantile float64) (State, *Counts, Measurement) {
	before := s.Stable
	if before == nil {
		before = s.Evidence.Past.Latency
	}
	s.Stable = before.plusShared(m.Stable)
	if before.Total() < enoughForBound {
		m.Outcome, m.Message = OutcomeNoData, fmt.Sprintf("The latency of the stable group is not known yet: %s of %d requests were seen.", formatNumber(s.Stable.Total()), enoughForBound)
		return s, nil, m
	}
	bound := before.boundFor(quantile, m.Canary)
	if bound == 0 || !m.Stable.hasBound(bound) {
		m.Outcome, m.Message = OutcomeError, "The histograms of canary and stable group have no bucket in common; let both versions use the same bounds."
		return s, nil, m
	}
	counts := Counts{CanaryBad: m.Canary.SlowerThan(bound), CanaryTotal: m.Canary.Total(), StableBad: m.Stable.SlowerThan(bound), StableTotal: m.Stable.Total()}
	counts, outcome, message := counts.checkComparable()
	if outcome != "" {
		m.Outcome, m.Message = outcome, message
		return s, nil, m
	}
	m.Message = "slower than " + formatNumber(bound)
	return s, &counts, m
}

// enoughForBound is the number of the stable group's requests that the choice of a bound needs.
const enoughForBound = 100

// decideEvidence finds the phase of a comparison that may pass.
func (s *State) decideEvidence(m Measurement, spec Metric) {
	p := spec.Compare.PassAfter
	evidence := *s.Evidence
	seen := evidence.Sum.CanaryTotal
	switch {
	case m.Outcome == OutcomePass && seen >= p.Samples && evidence.Past.IsEnough() && evidence.RulesOut(p.MaxRatio/spec.Compare.Tolerate, p.Samples):
		s.endRun(api.MetricPassed, fmt.Sprintf("After %s requests the canary is not worse by the ratio %s. %s", formatNumber(roundValue(seen)), formatNumber(p.MaxRatio), m.Message))
	case spec.Count > 0 && s.countedTotal() >= spec.Count:
		s.endRun(api.MetricInconclusive, fmt.Sprintf("%s did not give the evidence of passAfter (%s requests, ratio %s); decide: approve or roll back. %s",
			countNoun(int(s.countedTotal()), "measurement"), formatNumber(p.Samples), formatNumber(p.MaxRatio), m.Message))
	default:
		s.Phase, s.Message = api.MetricRunning, fmt.Sprintf("%s of %s requests seen. %s", formatNumber(roundValue(seen)), formatNumber(p.Samples), m.Message)
	}
}
