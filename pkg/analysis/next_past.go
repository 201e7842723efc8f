package analysis

import (
	"fmt"
	"time"
)

// An attempt to read the past follows an answer that was too short, and a failure, after these times.
const (
	pastGrows   = 5 * time.Minute
	pastRetries = time.Minute
)

// NeedsPast reports whether a measurement at a time should also read the past of the stable group: until it is long enough.
func (s State) NeedsPast(spec Metric, at time.Time) bool {
	if spec.Compare == nil || spec.Compare.LongestBurst == 0 || s.Ended {
		return false
	}
	return (s.Evidence == nil || !s.Evidence.Past.IsEnough()) && !at.Before(s.PastAt)
}

// learnPast keeps the past that a measurement has read. Evidence from before stays: blocks that were closed keep the shapes of their time.
func (s State) learnPast(m Measurement, spec Metric) State {
	var evidence Evidence
	if s.Evidence != nil && s.Evidence.Past.isFor(spec.Interval, spec.Compare.LongestBurst) {
		evidence = *s.Evidence
	} else {
		evidence = Evidence{Past: NewPast(nil, spec.Interval, spec.Compare.LongestBurst), Tolerate: spec.Compare.Tolerate}
	}
	switch {
	case m.Past != nil:
		evidence.Past, s.PastProblem, s.PastAt = *m.Past, "", m.At.Add(pastGrows)
	case m.PastProblem != "":
		s.PastProblem, s.PastAt = m.PastProblem, m.At.Add(pastRetries)
	}
	s.Evidence = &evidence
	return s
}

// pastText says, as a further sentence, why nothing is decided yet.
func (s State) pastText() string {
	p := s.Evidence.Past
	switch {
	case p.IsEnough() && p.Endless:
		return " Before the release, bursts of bad requests lasted longer than compare.longestBurst, or nearly as long, so the comparison decides late, or never."
	case p.IsEnough():
		return ""
	case s.PastProblem != "":
		return fmt.Sprintf(" Nothing is decided: the stable group's requests before the release cannot be read. %s Mend that, or set compare.longestBurst to 0s if bad requests come steadily.", s.PastProblem)
	}
	return fmt.Sprintf(" Nothing is decided yet: the stable group's requests are known for %s, and %s are needed to tell how unevenly bad ones come (compare.longestBurst).",
		formatDuration(p.Known), formatDuration(p.Needed))
}
