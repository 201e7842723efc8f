package analysis

import "sluice.dev/sluice/pkg/api"

// Gate is what all metrics of a step, or of a release, say together.
type Gate string

// Gates, in the order in which they win over each other.
const (
	// GateFailed: a metric failed; stop the release.
	GateFailed Gate = "Failed"
	// GateAsk: a metric cannot decide; hold, and ask a person.
	GateAsk Gate = "Ask"
	// GateWaiting: a metric waits for data or answers; hold.
	GateWaiting Gate = "Waiting"
	// GateRunning: a metric is not done; wait.
	GateRunning Gate = "Running"
	// GatePassed: all that decide passed, or have nothing against going on; this may stand for an approval.
	GatePassed Gate = "Passed"
	// GatePassing: nothing is against going on once the time of the step is up; this approves nothing.
	GatePassing Gate = "Passing"
)

// CombineVerdicts takes one verdict for each metric, the zero Verdict for one that has not been measured. Dry runs have no say. The index is
// that of the first verdict that made the gate, -1 if none did.
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

// Phase is the gate as a Rollout's status shows it.
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
