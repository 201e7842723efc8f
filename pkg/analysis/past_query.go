package analysis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// PastQuery is a range query for the requests of the stable group before a release.
type PastQuery struct {
	// Name is the field of the metric that the query comes from.
	Name, Text string
	// Step is the step of the range, and Length its length. It ends at the time of the measurement.
	Step, Length time.Duration
}

// PastAnswers are the provider's answers about the past of the stable group.
type PastAnswers struct {
	bad, total, buckets Result
	// problem says why there are no answers; empty if there are.
	problem string
}

// AskPast sends the queries for the past of the stable group, one after the other. They are the queries of the metric, over longer intervals.
func (m Metric) AskPast(ask func(PastQuery) (Result, error)) *PastAnswers {
	var a PastAnswers
	for _, part := range []struct {
		name, text, sum string
		into            *Result
	}{
		{"stableBad", m.Queries().StableBad, "sum", &a.bad},
		{"stableTotal", m.Queries().StableTotal, "sum", &a.total},
		{"stable", m.Queries().StableBuckets, "sum by (le)", &a.buckets},
	} {
		if part.text == "" {
			continue
		}
		q := PastQuery{Name: part.name, Step: PastStep(m.Interval, m.Compare.LongestBurst), Length: PastLength(m.Interval, m.Compare.LongestBurst)}
		var ok bool
		if q.Text, ok = stretchQuery(part.text, part.sum, m.Interval, q.Step); !ok {
			a.problem = fmt.Sprintf("the query %s cannot be asked for intervals of %s; write increase(...[{{args.interval}}]) without subqueries and offsets, or plain counters such as requests_total[6m]",
				part.name, promText(q.Step))
			return &a
		}
		var err error
		if *part.into, err = ask(q); err != nil {
			a.problem = err.Error()
			return &a
		}
	}
	return &a
}

// counterPattern is a selector with a range and nothing else, after its strings have been emptied.
var counterPattern = regexp.MustCompile(`^[\w:.]*\s*(\{[^{}]*\})?\s*\[[^\]:]*\]\s*$`)

// stretchQuery turns a query for the requests of one interval into one for a step.
func stretchQuery(query, sum string, interval, step time.Duration) (string, bool) {
	bare := strings.TrimSpace(quotedPattern.ReplaceAllString(query, `""`))
	if !countsOverTime(query) {
		query = strings.TrimSpace(query)
		return fmt.Sprintf("%s (increase(%s[%s]))", sum, query[:max(0, strings.LastIndex(query, "["))], promText(step)), counterPattern.MatchString(bare) && strings.HasSuffix(query, "]")
	}
	if step == interval {
		return query, true
	}
	for _, found := range rangePattern.FindAllStringSubmatch(bare, -1) {
		if found[2] != "" {
			return "", false
		}
	}
	if offsetPattern.MatchString(bare) {
		return "", false
	}
	var out strings.Builder
	at := 0
	for _, quoted := range append(quotedPattern.FindAllStringIndex(query, -1), []int{len(query), len(query)}) {
		out.WriteString(rangePattern.ReplaceAllString(query[at:quoted[0]], "["+promText(step)+"]"))
		out.WriteString(query[quoted[0]:quoted[1]])
		at = quoted[1]
	}
	return out.String(), true
}

// readPast reads the answers about the past of the stable group. If it cannot, it returns a sentence with the reason.
func (m Metric) readPast(a PastAnswers) (*Past, string) {
	if a.problem != "" {
		return nil, fullSentence(a.problem)
	}
	if l := m.Compare.Latency; l != nil {
		return m.readLatencies(a.buckets, l.Quantile)
	}
	for _, r := range []Result{a.bad, a.total} {
		if _, outcome, message := numbersOf(r); outcome == OutcomeError {
			return nil, message
		}
	}
	bad, total := sumTimes(a.bad), sumTimes(a.total)
	var ticks []Tick
	for _, at := range slices.Sorted(maps.Keys(total)) {
		ticks = append(ticks, Tick{Bad: min(bad[at], total[at]), Total: total[at]})
	}
	past := NewPast(ticks, m.Interval, m.Compare.LongestBurst)
	return &past, ""
}

// sumTimes adds up the series of a matrix, time by time.
func sumTimes(r Result) map[int64]float64 {
	sums := map[int64]float64{}
	for _, s := range r.Series {
		for _, p := range s.Points {
			if p.Value > 0 { // and no NaN
				sums[p.At.UnixMilli()] += p.Value
			}
		}
	}
	return sums
}

// readLatencies reads the latency of the stable group, and counts the requests that were slower than most.
func (m Metric) readLatencies(r Result, quantile float64) (*Past, string) {
	if _, outcome, message := numbersOf(r); outcome == OutcomeError {
		return nil, message
	}
	times := map[int64][]Series{}
	for _, s := range r.Series {
		for _, p := range s.Points {
			times[p.At.UnixMilli()] = append(times[p.At.UnixMilli()], Series{Labels: s.Labels, Points: []Point{p}})
		}
	}
	var all Histogram
	var each []Histogram
	for _, at := range slices.Sorted(maps.Keys(times)) {
		h, outcome, message := HistogramOf(Result{Kind: KindVector, Series: times[at]})
		if outcome == OutcomeError {
			return nil, message
		}
		if outcome == "" {
			all, each = all.plusShared(h), append(each, h)
		}
	}
	bound := all.boundFor(quantile, all)
	var ticks []Tick
	for _, h := range each {
		ticks = append(ticks, Tick{Bad: h.SlowerThan(bound), Total: h.Total()})
	}
	past := NewPast(ticks, m.Interval, m.Compare.LongestBurst)
	past.Latency = all
	return &past, ""
}
