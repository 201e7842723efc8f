package analysis

import "sluice.dev/sluice/pkg/api"

// Gate is the combined verdict of all metrics of a step, or of a release.
type Gate string

// Gates, in the order of their precedence.
const (
	// GateFailed: a metric failed; the planner stops the release.
	GateFailed Gate = "Failed"
	// GateAsk: a metric cannot decide; the release waits for a user's decision.
	GateAsk Gate = "Ask"
	// GateWaiting: a metric waits for data or answers; the release waits.
	GateWaiting Gate = "Waiting"
	// GateRunning: a metric is not done; the release waits.
	GateRunning Gate = "Running"
	// GatePassed: all deciding metrics passed or are passing, and one of them has passed; the gate may replace an approval.
	GatePassed Gate = "Passed"
	// GatePassing: no metric objects once the time of the step is up; the gate approves nothing.
	GatePassing Gate = "Passing"
)

// CombineVerdicts takes one verdict for each metric; the zero Verdict stands for a metric without measurements. Dry runs do not count. The index is
// the index of the first verdict that caused the gate; -1 if none did.
func CombineVerdicts(verdicts []Verdict) (Gate, int) {
	order := []Gate{GateFailed, GateAsk, GateWaiting, GateRunning, GatePassed}
	first := map[Gate]int{}
	for i, v := range verdicts {
		gate := v.gate()
		if _, known := first[gate]; !known && !v.DryRun {
			first[gate] = i
		}
	}
	for _, gate := range order {
		if i, is := first[gate]; is {
			return gate, i
		}
	}
	return GatePassing, -1
}

// Phase returns the gate in the form of a Rollout's status.
func (g Gate) Phase() api.AnalysisPhase {
	if g == GateAsk {
		return api.AnalysisInconclusive
	}
	return api.AnalysisPhase(g)
}

func (v Verdict) gate() Gate {
	switch v.Phase {
	case api.MetricFailed:
		return GateFailed
	case api.MetricInconclusive:
		return GateAsk
	case api.MetricWaiting:
		return GateWaiting
	case api.MetricPassed:
		return GatePassed
	}
	if v.Passing {
		return GatePassing
	}
	return GateRunning
}
