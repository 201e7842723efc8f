package analysistry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/metric"
)

// Asker sends queries to providers; [metric.Client] implements it.
type Asker interface {
	Query(ctx context.Context, r metric.Request) (metric.Answer, error)
}

// Options configure a trial of templates.
type Options struct {
	// Args are the arguments of the user.
	Args map[string]string
	// Namespace stands for the namespace of the Rollout.
	Namespace string
	// Prometheus, if set, replaces the addresses of the templates.
	Prometheus string
	// Metric, if set, is the only metric to try.
	Metric string
	// Token, if set, is the bearer token for the provider.
	Token string
	// Now is the time of the measurement.
	Now time.Time
}

// Report is the result of one template.
type Report struct {
	Template  string     `json:"template"`
	Arguments []Argument `json:"arguments,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"`
	Metrics   []Metric   `json:"metrics"`
}

// Metric is the result of one metric.
type Metric struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Rule describes the deciding condition, and Run the schedule of a release.
	Rule string `json:"rule"`
	Run  string `json:"run"`
	// Past describes the stable version before the release, in a comparison.
	Past string `json:"past,omitempty"`
	// Queries are in the order of the requests.
	Queries []Query `json:"queries"`
	// Outcome is the outcome of the measurement, and Message explains it.
	Outcome  analysis.Outcome `json:"outcome"`
	Value    *float64         `json:"value,omitempty"`
	Values   []float64        `json:"values,omitempty"`
	Message  string           `json:"message"`
	Warnings []string         `json:"warnings,omitempty"`
}

// Judged reports whether the measurement has a verdict.
func (m Metric) Judged() bool {
	return m.Outcome == analysis.OutcomePass || m.Outcome == analysis.OutcomeFail || m.Outcome == analysis.OutcomeInconclusive
}

// Run measures the metrics of a template. It returns an error for a faulty template or faulty options. The report holds errors of the provider.
func (t Template) Run(ctx context.Context, ask Asker, o Options) (Report, error) {
	if o.Prometheus != "" {
		t.Spec.Metrics = slices.Clone(t.Spec.Metrics)
		for i := range t.Spec.Metrics {
			t.Spec.Metrics[i].Prometheus.Address = o.Prometheus
		}
	}
	args, used, odd, err := t.resolveArguments(o)
	if err != nil {
		return Report{}, err
	}
	report := Report{Template: t.Name, Arguments: used, Warnings: odd}
	var parsed []analysis.Metric
	for _, m := range t.Spec.Metrics {
		if o.Metric != "" && m.Name != o.Metric {
			continue
		}
		p, err := analysis.ParseMetric(m, args)
		if err != nil {
			return Report{}, fmt.Errorf("%s, metric %s: %w", t.Name, m.Name, err)
		}
		parsed = append(parsed, p)
	}
	for i, p := range parsed {
		trial := &trial{Options: o, ask: ask, spec: p}
		m := trial.measureMetric(ctx)
		m.Rule, m.Run = ruleOf(findMetric(t.Spec.Metrics, parsed[i].Name)), runOf(p)
		report.Metrics = append(report.Metrics, m)
	}
	return report, nil
}

func findMetric(list []api.Metric, name string) api.Metric {
	for _, m := range list {
		if m.Name == name {
			return m
		}
	}
	return api.Metric{}
}

// trial is the trial of one metric.
type trial struct {
	Options
	ask  Asker
	spec analysis.Metric
	out  Metric
}

// comparedIntervals is the number of latest intervals that a comparison measures.
const comparedIntervals = 5

// measureMetric measures once. A comparison measures several intervals in sequence, because one interval has little data, and because earlier intervals define
// slow requests.
func (t *trial) measureMetric(ctx context.Context) Metric {
	t.out = Metric{Name: t.spec.Name, Address: t.spec.Address}
	t.warnSecret()
	looks := 1
	if t.spec.Compare != nil {
		looks = comparedIntervals
	}
	state := analysis.NewState(t.Now.Add(-t.spec.Settle - t.spec.Window - comparedIntervals*t.spec.Interval))
	var verdict analysis.Verdict
	for i := looks - 1; i >= 0 && !verdict.Ended; i-- {
		at := t.Now.Add(-time.Duration(i) * t.spec.Interval)
		t.out.Queries = nil
		state, verdict = analysis.NextState(state, t.measureOnce(ctx, at, state.NeedsPast(t.spec, at)), t.spec, at)
	}
	if e := state.Evidence; e != nil {
		t.out.Past = e.Past.Text(t.spec.Interval)
	}
	m := verdict.Measured
	t.out.Outcome, t.out.Value, t.out.Values, t.out.Message = m.Outcome, m.Value, m.Values, m.Message
	if t.out.Judged() || m.Outcome == analysis.OutcomeNoData {
		t.checkScrapes(ctx)
	}
	return t.out
}

// measureOnce measures for a time. past: it also reads the time before that.
func (t *trial) measureOnce(ctx context.Context, at time.Time, past bool) analysis.Measurement {
	q, a := t.spec.Queries(), analysis.Answers{}
	for _, part := range []struct {
		name, text string
		into       *analysis.Result
	}{
		{"minSamples", q.Samples, &a.Samples}, {"query", q.Value, &a.Value},
		{"canaryBad", q.CanaryBad, &a.CanaryBad}, {"canaryTotal", q.CanaryTotal, &a.CanaryTotal},
		{"stableBad", q.StableBad, &a.StableBad}, {"stableTotal", q.StableTotal, &a.StableTotal},
		{"canary", q.CanaryBuckets, &a.CanaryBuckets}, {"stable", q.StableBuckets, &a.StableBuckets},
	} {
		if part.text == "" {
			continue
		}
		answer, err := t.queryProvider(ctx, part.text, at)
		t.out.Queries = append(t.out.Queries, newQuery(part.name, part.text, answer, err))
		if err != nil {
			return analysis.ErrorMeasurement(at, err)
		}
		*part.into = answer.Result
	}
	if past {
		a.Past = t.spec.AskPast(func(q analysis.PastQuery) (analysis.Result, error) {
			answer, err := t.sendRequest(ctx, metric.Request{Query: q.Text, Range: &metric.Range{Start: at.Add(-q.Length), End: at, Step: q.Step}})
			return answer.Result, err
		})
	}
	return t.spec.Measure(at, a)
}

func (t *trial) queryProvider(ctx context.Context, text string, at time.Time) (metric.Answer, error) {
	return t.sendRequest(ctx, metric.Request{Query: text, At: at})
}

// sendRequest sends a request to the provider of the metric.
func (t *trial) sendRequest(ctx context.Context, r metric.Request) (metric.Answer, error) {
	provider := metric.Provider{Address: t.spec.Address, Headers: t.spec.Headers}
	if t.Token != "" {
		provider.Secret = map[string][]byte{"token": []byte(t.Token)}
	}
	r.Namespace, r.Provider, r.Timeout = t.Namespace, provider, t.spec.Timeout
	return t.ask.Query(ctx, r)
}
