package analysis

import (
	"hash/fnv"
	"time"
)

// NextAt is the first time of a fixed rate that is not before start. The times of a key are the same for everyone who computes them, so
// no measurement depends on when the last was made; keys are spread over the interval, so that thousands do not come at once.
func NextAt(start time.Time, interval time.Duration, key string) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	phase := time.Duration(h.Sum64() % uint64(interval/time.Millisecond) * uint64(time.Millisecond))
	since := start.Sub(time.Unix(0, 0).Add(phase))
	slots := since / interval
	if since > slots*interval {
		slots++
	}
	return time.Unix(0, 0).Add(phase + slots*interval).UTC()
}

// EarliestTime is the first time at which a measurement sees nothing of the traffic from before its last change.
func (s State) EarliestTime(spec Metric) time.Time {
	return s.ChangedAt.Add(spec.Settle + spec.Window)
}

// NextDue is the time that the next measurement is to be made for. It may lie in the past by less than an interval: then measure at
// once, for that time. Times that were missed altogether are not made up for. The zero time means that nothing is left to measure.
func NextDue(s State, spec Metric, key string, now time.Time) time.Time {
	if s.Ended {
		return time.Time{}
	}
	start := s.EarliestTime(spec)
	if !s.LastAt.IsZero() && s.LastAt.Add(time.Nanosecond).After(start) {
		start = s.LastAt.Add(time.Nanosecond)
	}
	if missed := now.Add(-spec.Interval).Add(time.Nanosecond); missed.After(start) {
		start = missed
	}
	return NextAt(start, spec.Interval, key)
}

// isLate reports whether a measurement was made noticeably after its time.
func isLate(m Measurement, spec Metric, now time.Time) bool {
	return now.Sub(m.At) > spec.Interval/10
}

// tooEarly reports whether a measurement looks back at what does not count: at traffic from before its last change, at a time that
// counted already, or for a comparison at requests that were counted already.
func (s State) tooEarly(m Measurement, spec Metric) bool {
	if m.At.Before(s.EarliestTime(spec)) || !m.At.After(s.LastAt) {
		return true
	}
	return spec.Compare != nil && !s.LastAt.IsZero() && m.At.Sub(s.LastAt) < spec.Interval
}
