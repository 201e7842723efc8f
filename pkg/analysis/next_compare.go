package analysis

import (
	"fmt"
	"math"

	"sluice.dev/sluice/pkg/api"
)

// compare takes the requests of a tick into the evidence, and finds the outcome: fail once the canary is worse beyond doubt, pass
// while nothing points that way, inconclusive while the evidence leans that way.
func (s State) compare(m Measurement, spec Metric) (State, Measurement) {
	counts, bad := m.Counts, "bad"
	if spec.Compare.Latency != nil {
		if s, counts, m = s.slower(m, spec.Compare.Latency.Quantile); counts == nil {
			return s, m
		}
		bad = m.Message
	}
	var evidence Evidence
	if s.Evidence != nil {
		evidence = *s.Evidence
	}
	evidence = evidence.Add(*counts, spec.Compare.Tolerate)
	s.Evidence = &evidence
	ratio := evidence.Ratio()
	m.Value = &ratio
	sum := fmt.Sprintf("%s of %s requests to the canary were %s, and %s of %s to the stable group",
		number(round(evidence.Sum.CanaryBad)), number(round(evidence.Sum.CanaryTotal)), bad, number(round(evidence.Sum.StableBad)), number(round(evidence.Sum.StableTotal)))
	switch worse := evidence.Worse(); {
	case worse >= math.Log(1/spec.Compare.Alpha):
		m.Outcome, m.Message = OutcomeFail, fmt.Sprintf("The canary is worse than the stable group: %s, %s times the rate.", sum, number(round(ratio*100)/100))
	case worse > 0:
		m.Outcome, m.Message = OutcomeInconclusive, fmt.Sprintf("The canary may be worse than the stable group: %s.", sum)
	default:
		m.Outcome, m.Message = OutcomePass, fmt.Sprintf("Nothing points to a worse canary: %s.", sum)
	}
	return s, m
}

func round(v float64) float64 { return math.Round(v) }

// slower makes counts of latencies, with the bound that the stable group's requests before this tick suggest. Taking it from the
// same requests that are then counted would favour one group. No counts mean that the outcome is known.
func (s State) slower(m Measurement, quantile float64) (State, *Counts, Measurement) {
	before := s.Stable
	s.Stable = before.plus(m.Stable)
	if before.Total() < enoughForBound {
		m.Outcome, m.Message = OutcomeNoData, fmt.Sprintf("The latency of the stable group is not known yet: %s of %d requests were seen.", number(s.Stable.Total()), enoughForBound)
		return s, nil, m
	}
	bound := before.boundFor(quantile, m.Canary)
	if bound == 0 || !m.Stable.has(bound) {
		m.Outcome, m.Message = OutcomeError, "The histograms of canary and stable group have no bucket in common; let both versions use the same bounds."
		return s, nil, m
	}
	counts := Counts{CanaryBad: m.Canary.Slower(bound), CanaryTotal: m.Canary.Total(), StableBad: m.Stable.Slower(bound), StableTotal: m.Stable.Total()}
	counts, outcome, message := counts.checked()
	if outcome != "" {
		m.Outcome, m.Message = outcome, message
		return s, nil, m
	}
	m.Message = "slower than " + number(bound)
	return s, &counts, m
}

// enoughForBound is how many requests of the stable group tell where its slow ones begin.
const enoughForBound = 100

// decideEvidence finds the phase of a comparison that may pass.
func (s *State) decideEvidence(m Measurement, spec Metric) {
	p := spec.Compare.PassAfter
	var evidence Evidence
	if s.Evidence != nil {
		evidence = *s.Evidence
	}
	seen := evidence.Sum.CanaryTotal
	switch {
	case m.Outcome == OutcomePass && seen >= p.Samples && evidence.RulesOut(p.MaxRatio/spec.Compare.Tolerate):
		s.end(api.MetricPassed, fmt.Sprintf("After %s requests the canary is not worse by the ratio %s. %s", number(round(seen)), number(p.MaxRatio), m.Message))
	case spec.Count > 0 && s.taken() >= spec.Count:
		s.end(api.MetricInconclusive, fmt.Sprintf("%s did not give the evidence of passAfter (%s requests, ratio %s); decide: approve or roll back. %s",
			many(int(s.taken()), "measurement"), number(p.Samples), number(p.MaxRatio), m.Message))
	default:
		s.Phase, s.Message = api.MetricRunning, fmt.Sprintf("%s of %s requests seen. %s", number(round(seen)), number(p.Samples), m.Message)
	}
}
