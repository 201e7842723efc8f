package analysis

import (
	"fmt"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Verdict is the current verdict of a metric.
type Verdict struct {
	// Phase is Passed or Failed once that is decided. Inconclusive asks a user to decide. Waiting says that data or answers are missing. Otherwise it
	// is Running.
	Phase api.MetricPhase
	// Passing says that a metric without an end of its own has no objection to the next step now.
	Passing bool
	// Ended says that no further measurement can change the verdict.
	Ended bool
	// DryRun says that the verdict decides nothing.
	DryRun bool
	// Ignored says that the measurement did not count: it repeats an earlier time, or looks back at traffic from before the last change.
	Ignored bool
	// Lateness is the time between the due time of the measurement and its fold into the run.
	Lateness time.Duration
	// Measured is the measurement as it counted, with the outcome that a comparison found, for callers that record it.
	Measured Measurement
	// Message is a sentence with the reason.
	Message string
}

// NextState folds a measurement into a run. A measurement that does not count leaves the state unchanged. So a repeated measurement, or an older one
// that arrives later, changes nothing.
//
//	Running <──> Waiting ──deadline──> Inconclusive (a user must decide; conclusive measurements lead back to Running)
//	   │           │
//	   ├───────────┴──> Failed         ended: more failures than tolerated, or evidence of a worse canary
//	   ├──────────────> Inconclusive   ended: more inconclusive ones than tolerated, or not enough evidence in count measurements
//	   └──────────────> Passed         ended: count measurements within the limits, or the evidence of passAfter
func NextState(s State, m Measurement, spec Metric, now time.Time) (State, Verdict) {
	if s.Ended || s.tooEarly(m, spec) {
		v := s.Verdict(spec)
		v.Ignored = true
		v.Measured = m
		return s, v
	}
	s.LastAt = m.At
	if isLate(m, spec, now) {
		s.Late++
	}
	if spec.Compare != nil {
		s = s.learnPast(m, spec)
	}
	if spec.Compare != nil && m.Outcome == "" {
		s, m = s.compareTick(m, spec)
	}
	s = s.countOutcome(m, spec)
	s.decidePhase(m, spec)
	v := s.Verdict(spec)
	v.Lateness = now.Sub(m.At)
	v.Measured = m
	return s, v
}

// Verdict returns the verdict of a run without a further measurement.
func (s State) Verdict(spec Metric) Verdict {
	lasting := spec.Count == 0 && (spec.Compare == nil || spec.Compare.PassAfter == nil)
	return Verdict{
		Phase: s.Phase, Ended: s.Ended, DryRun: spec.DryRun, Message: s.Message,
		Passing: lasting && s.Phase == api.MetricRunning && s.passCount() > 0 && (s.LastOutcome == OutcomePass || !s.LastOutcome.isConclusive()),
	}
}

// countOutcome counts the outcome of a measurement.
func (s State) countOutcome(m Measurement, spec Metric) State {
	s.LastOutcome = m.Outcome
	if m.Value != nil {
		s.LastValue = formatNumber(*m.Value)
	} else if len(m.Values) > 0 {
		s.LastValue = formatValues(m.Values)
	}
	switch m.Outcome {
	case OutcomePass:
		s.Passed++
	case OutcomeFail:
		s.Failed++
	case OutcomeInconclusive:
		s.Inconclusive++
	case OutcomeNoData:
		s.NoData++
	default:
		s.Errors++
	}
	if m.Outcome.isConclusive() {
		s.SilentSince = time.Time{}
		return s
	}
	if s.SilentSince.IsZero() {
		s.SilentSince = m.At
	}
	switch p := spec.policyFor(m.Outcome); {
	case p.Action == Pass:
		s.ByPolicyPassed++
	case p.Action == Fail && s.silentFor(m) >= p.Deadline:
		s.ByPolicyFailed++
	}
	return s
}

// silentFor returns how long the run has had no conclusive measurement.
func (s State) silentFor(m Measurement) time.Duration { return m.At.Sub(s.SilentSince) }

// policyFor returns the policy for a measurement that is not conclusive.
func (m Metric) policyFor(o Outcome) Policy {
	if o == OutcomeNoData {
		return m.NoData
	}
	return m.Error
}

// decidePhase finds the phase after a measurement that has been counted.
func (s *State) decidePhase(m Measurement, spec Metric) {
	silent := !m.Outcome.isConclusive() && spec.policyFor(m.Outcome).Action != Pass
	switch {
	case spec.Compare != nil && m.Outcome == OutcomeFail:
		s.endRun(api.MetricFailed, m.Message)
	case s.failCount() > spec.FailureLimit:
		s.endRun(api.MetricFailed, fmt.Sprintf("%s failed, and %d may. %s", countNoun(int(s.failCount()), "measurement"), spec.FailureLimit, m.Message))
	case spec.Compare == nil && s.Inconclusive > spec.InconclusiveLimit:
		s.endRun(api.MetricInconclusive, fmt.Sprintf("%s allowed no decision, and %d may; look at the metric and decide: approve or roll back. %s",
			countNoun(int(s.Inconclusive), "measurement"), spec.InconclusiveLimit, m.Message))
	case silent:
		s.awaitConclusive(m, spec)
	case spec.Compare != nil && spec.Compare.PassAfter != nil:
		s.decideEvidence(m, spec)
	case spec.Count > 0 && s.countedTotal() >= spec.Count && s.passCount() > 0:
		s.endRun(api.MetricPassed, fmt.Sprintf("%d of %s passed. %s", s.passCount(), countNoun(int(s.countedTotal()), "measurement"), m.Message))
	default:
		s.Phase, s.Message = api.MetricRunning, s.progressText(spec)+m.Message
	}
}

func (s *State) endRun(phase api.MetricPhase, message string) {
	s.Phase, s.Ended, s.Message = phase, true, strings.TrimSpace(message)
}

// awaitConclusive waits for conclusive measurements until the deadline, and then asks a user to decide.
func (s *State) awaitConclusive(m Measurement, spec Metric) {
	p, quiet := spec.policyFor(m.Outcome), s.silentFor(m)
	if p.Action == Hold && quiet >= p.Deadline {
		s.Phase, s.Message = api.MetricInconclusive, fmt.Sprintf(
			"For %s nothing could be judged; restore the measurements, or decide without them: approve or roll back. %s", formatDuration(quiet), m.Message)
		return
	}
	what := "an answer"
	if m.Outcome == OutcomeNoData {
		what = "something to judge"
	}
	s.Phase, s.Message = api.MetricWaiting, fmt.Sprintf("Waiting for %s, for %s at most. %s", what, formatDuration(max(0, p.Deadline-quiet)), m.Message)
}

func (s *State) progressText(spec Metric) string {
	if spec.Count == 0 {
		return ""
	}
	return fmt.Sprintf("Measurement %d of %d. ", s.countedTotal(), spec.Count)
}

// formatValues writes the first five of many values.
func formatValues(values []float64) string {
	texts := make([]string, 0, len(values))
	for i, v := range values {
		if i == 5 {
			texts = append(texts, fmt.Sprintf("and %d more", len(values)-5))
			break
		}
		texts = append(texts, formatNumber(v))
	}
	return strings.Join(texts, ", ")
}
