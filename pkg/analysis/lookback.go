package analysis

import (
	"regexp"
	"strings"
	"time"
)

var (
	// rangePattern finds [5m], and [5m:30s] of a subquery; offsetPattern finds offset 5m.
	rangePattern  = regexp.MustCompile(`\[\s*((?:\d+(?:ms|[smhdwy]))+)\s*(:[^\]]*)?\]`)
	offsetPattern = regexp.MustCompile(`(?i)\boffset\s+((?:\d+(?:ms|[smhdwy]))+)`)
	partPattern   = regexp.MustCompile(`(\d+)(ms|[smhdwy])`)
	// quotedPattern finds strings and comments, which contain no ranges.
	quotedPattern = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`|#[^\n]*")
)

// QueryLookback returns how far back a PromQL query looks, read from its text. It is the longest range, plus the ranges of all subqueries and the
// longest offset. It may be longer than the truth if ranges do not lie inside each other, but not shorter.
func QueryLookback(query string) time.Duration {
	query = quotedPattern.ReplaceAllString(query, `""`)
	var plain, sub, offset time.Duration
	for _, found := range rangePattern.FindAllStringSubmatch(query, -1) {
		if found[2] == "" {
			plain = max(plain, promDuration(found[1]))
		} else {
			sub += promDuration(found[1])
		}
	}
	for _, found := range offsetPattern.FindAllStringSubmatch(query, -1) {
		offset = max(offset, promDuration(found[1]))
	}
	return plain + sub + offset
}

// promDuration reads a duration of PromQL, such as 1h30m or 2d.
func promDuration(text string) time.Duration {
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour,
	}
	var sum time.Duration
	for _, part := range partPattern.FindAllStringSubmatch(text, -1) {
		var n time.Duration
		for _, digit := range part[1] {
			n = n*10 + time.Duration(digit-'0')
		}
		sum += n * units[part[2]]
	}
	return sum
}

// countsOverTime reports whether a query computes a rise over the ranges that it writes.
func countsOverTime(query string) bool {
	query = quotedPattern.ReplaceAllString(query, `""`)
	for _, function := range []string{"increase(", "rate(", "delta("} {
		if strings.Contains(strings.ReplaceAll(query, " ", ""), function) {
			return true
		}
	}
	return false
}
