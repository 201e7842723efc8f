package analysistry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/metric"
)

// Query is one query to a provider, and its answer.
type Query struct {
	// Name is the field of the metric.
	Name string `json:"name"`
	Text string `json:"query"`
	// Kind is the kind of the answer, such as vector.
	Kind analysis.Kind `json:"kind,omitempty"`
	// Series are the first series of the answer, and Count is the number of all series.
	Series []Series `json:"series,omitempty"`
	Count  int      `json:"count"`
	// Remarks are the provider's notes about the query.
	Remarks []string `json:"remarks,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Series is one series of an answer, with its newest value.
type Series struct {
	Labels  map[string]string `json:"labels"`
	Value   string            `json:"value"`
	Samples int               `json:"samples"`
}

// maxSeries bounds the series shown of an answer.
const maxSeries = 8

func newQuery(name, text string, answer metric.Answer, err error) Query {
	q := Query{Name: name, Text: strings.TrimSpace(text), Kind: answer.Kind, Count: len(answer.Series)}
	q.Remarks = append(q.Remarks, answer.Warnings...)
	q.Remarks = append(q.Remarks, answer.Infos...)
	if err != nil {
		q.Error = err.Error()
		return q
	}
	if answer.Kind == analysis.KindString {
		q.Series, q.Count = []Series{{Value: fmt.Sprintf("%q", answer.Text)}}, 1
	}
	for i, s := range answer.Series {
		if i == maxSeries {
			break
		}
		one := Series{Labels: s.Labels, Samples: len(s.Points), Value: "a native histogram"}
		if n := len(s.Points); n > 0 {
			one.Value = fmt.Sprintf("%g", s.Points[n-1].Value)
		}
		q.Series = append(q.Series, one)
	}
	return q
}

// String returns the series in the notation of Prometheus.
func (s Series) String() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name != "__name__" {
			labels = append(labels, fmt.Sprintf("%s=%q", name, s.Labels[name]))
		}
	}
	text := s.Labels["__name__"] + "{" + strings.Join(labels, ", ") + "} " + s.Value
	if s.Samples > 1 {
		text += fmt.Sprintf(" (the last of %d samples)", s.Samples)
	}
	return text
}

// ruleOf describes the rule that judges a measurement.
func ruleOf(m api.Metric) string {
	var parts []string
	if c := m.Compare; c != nil {
		what := "failed requests"
		if c.Latency != nil {
			what = fmt.Sprintf("requests slower than the quantile %g of the stable version's", cmp.Or(c.Latency.Quantile, 0.99))
		}
		return fmt.Sprintf("compares, over the last intervals, the canary's share of %s with the stable version's; fails with the evidence of alpha %g", what, cmp.Or(c.Alpha, 0.01))
	}
	if m.Reduce != "" {
		parts = append(parts, "reduce "+string(m.Reduce))
	}
	if m.PassWhen != "" {
		parts = append(parts, "passWhen "+m.PassWhen)
	}
	if m.FailWhen != "" {
		parts = append(parts, "failWhen "+m.FailWhen)
	}
	if m.MinSamples != nil {
		parts = append(parts, fmt.Sprintf("minSamples.atLeast %g", m.MinSamples.AtLeast))
	}
	return strings.Join(parts, ", ")
}

// runOf describes the schedule of the metric in a release.
func runOf(m analysis.Metric) string {
	parts := []string{"every " + shortDuration(m.Interval)}
	switch p := passAfter(m); {
	case p != nil:
		parts = append(parts, fmt.Sprintf("passes after %g requests that speak against the ratio %g", p.Samples, p.MaxRatio))
	case m.Compare != nil:
		parts = append(parts, "never passes, so it is watched for as long as the step or the release lasts")
	case m.Count > 0:
		parts = append(parts, fmt.Sprintf("%d measurements decide, %d of them may fail", m.Count, m.FailureLimit))
	default:
		parts = append(parts, fmt.Sprintf("for as long as the step or the release lasts, %d may fail", m.FailureLimit))
	}
	parts = append(parts, fmt.Sprintf("from %s after a change of traffic on", shortDuration(m.Settle+m.Window)))
	if m.DryRun {
		parts = append(parts, "decides nothing (dryRun)")
	}
	return strings.Join(parts, "; ")
}

func passAfter(m analysis.Metric) *api.PassAfter {
	if m.Compare == nil {
		return nil
	}
	return m.Compare.PassAfter
}

func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// warnSecret warns of a Secret whose credentials the trial does not send.
func (t *trial) warnSecret() {
	if t.spec.Secret != "" && t.Token == "" {
		t.out.Warnings = append(t.out.Warnings, fmt.Sprintf("The Secret %s is not read here, so no credentials are sent; give a token with --token-file.", t.spec.Secret))
	}
}

// enough is the number of samples that a window needs for a good estimate of a rate.
const enough = 4

// scrapeInterval returns the scrape interval of the most frequently scraped target, 0 if it is unknown.
func (t *trial) scrapeInterval(ctx context.Context) time.Duration {
	answer, err := t.queryProvider(ctx, "topk(1, count_over_time(up[5m]))", t.Now)
	if err != nil || len(answer.Series) == 0 {
		return 0
	}
	var labels []string
	for name, value := range answer.Series[0].Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	answer, err = t.queryProvider(ctx, "up{"+strings.Join(labels, ",")+"}[5m]", t.Now)
	if err != nil || len(answer.Series) == 0 {
		return 0
	}
	points := answer.Series[0].Points
	if len(points) < 2 {
		return 0
	}
	return (points[len(points)-1].At.Sub(points[0].At) / time.Duration(len(points)-1)).Round(100 * time.Millisecond)
}

// checkScrapes warns of windows and intervals that are too short for the scrape interval of Prometheus.
func (t *trial) checkScrapes(ctx context.Context) {
	every := t.scrapeInterval(ctx)
	if every == 0 {
		return
	}
	switch back := t.spec.Window; {
	case back > 0 && back < 2*every:
		t.out.Warnings = append(t.out.Warnings, fmt.Sprintf("The queries look back over %s, and Prometheus scrapes its quickest target every %s: no rate can be told from fewer than two samples; let them look back over %s at least.",
			shortDuration(back), shortDuration(every), shortDuration(enough*every)))
	case back > 0 && back < enough*every:
		t.out.Warnings = append(t.out.Warnings, fmt.Sprintf("The queries look back over %s, and Prometheus scrapes its quickest target every %s: rates of so few samples are rough; let them look back over %s at least.",
			shortDuration(back), shortDuration(every), shortDuration(enough*every)))
	}
	if t.spec.Interval < every {
		t.out.Warnings = append(t.out.Warnings, fmt.Sprintf("The interval of %s is shorter than the %s between two scrapes, so that the same samples are judged again; make it longer.",
			shortDuration(t.spec.Interval), shortDuration(every)))
	}
}
