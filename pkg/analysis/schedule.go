package analysis

import (
	"hash/fnv"
	"time"
)

// NextAt returns the first time of a fixed rate that is not before start. The times follow from the key and the interval, so no measurement depends
// on the previous one. Keys are spread over the interval, so that thousands of measurements do not coincide.
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

// EarliestTime is the first time at which a measurement covers no traffic from before the last change.
func (s State) EarliestTime(spec Metric) time.Time {
	return s.ChangedAt.Add(spec.Settle + spec.Window)
}

// NextDue returns the time of the next measurement. It may lie in the past by less than an interval: the caller then measures at once, for that time.
// The analyzer does not catch up on older times. The zero time means that no measurement is left.
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

// isLate reports whether a measurement was made noticeably after its due time.
func isLate(m Measurement, spec Metric, now time.Time) bool {
	return now.Sub(m.At) > spec.Interval/10
}

// tooEarly reports whether a measurement must not count. It covers traffic from before the last change, its time has already counted, or, in a
// comparison, some of its requests have.
func (s State) tooEarly(m Measurement, spec Metric) bool {
	if m.At.Before(s.EarliestTime(spec)) || !m.At.After(s.LastAt) {
		return true
	}
	return spec.Compare != nil && !s.LastAt.IsZero() && m.At.Sub(s.LastAt) < spec.Interval
}
