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

// Asker asks providers; [metric.Client] is one.
type Asker interface {
	Query(ctx context.Context, r metric.Request) (metric.Answer, error)
}

// Options say how templates are tried.
type Options struct {
	// Args are the arguments given.
	Args map[string]string
	// Namespace stands for that of the Rollout.
	Namespace string
	// Prometheus takes the place of the templates' addresses, if set.
	Prometheus string
	// Metric is the only one to try, if set.
	Metric string
	// Token is sent to the provider as a bearer, if set.
	Token string
	// Now is the time to measure.
	Now time.Time
}

// Report is what came of one template.
type Report struct {
	Template  string     `json:"template"`
	Arguments []Argument `json:"arguments,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"`
	Metrics   []Metric   `json:"metrics"`
}

// Metric is what came of one metric.
type Metric struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Rule says what decides, Run how a release would go on measuring.
	Rule string `json:"rule"`
	Run  string `json:"run"`
	// Queries are in the order in which they were asked.
	Queries []Query `json:"queries"`
	// Outcome is that of the measurement, and Message why.
	Outcome  analysis.Outcome `json:"outcome"`
	Value    *float64         `json:"value,omitempty"`
	Values   []float64        `json:"values,omitempty"`
	Message  string           `json:"message"`
	Warnings []string         `json:"warnings,omitempty"`
}

// Judged reports whether the measurement allowed a judgement.
func (m Metric) Judged() bool {
	return m.Outcome == analysis.OutcomePass || m.Outcome == analysis.OutcomeFail || m.Outcome == analysis.OutcomeInconclusive
}

// Run measures the metrics of a template. The error says what is wrong with the template, or with what was given; what a provider
// does is in the report.
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

// trial is one metric that is measured.
type trial struct {
	Options
	ask  Asker
	spec analysis.Metric
	out  Metric
}

// comparedIntervals is how many of the last intervals a comparison looks at.
const comparedIntervals = 5

// measureMetric measures once. A comparison looks at several intervals one after the other, because one alone says little, and because what
// slow means is known from those before.
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
		state, verdict = analysis.NextState(state, t.measureOnce(ctx, at), t.spec, at)
	}
	m := verdict.Measured
	t.out.Outcome, t.out.Value, t.out.Values, t.out.Message = m.Outcome, m.Value, m.Values, m.Message
	if t.out.Judged() || m.Outcome == analysis.OutcomeNoData {
		t.checkScrapes(ctx)
	}
	return t.out
}

func (t *trial) measureOnce(ctx context.Context, at time.Time) analysis.Measurement {
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
	return t.spec.Measure(at, a)
}

func (t *trial) queryProvider(ctx context.Context, text string, at time.Time) (metric.Answer, error) {
	provider := metric.Provider{Address: t.spec.Address, Headers: t.spec.Headers}
	if t.Token != "" {
		provider.Secret = map[string][]byte{"token": []byte(t.Token)}
	}
	return t.ask.Query(ctx, metric.Request{Namespace: t.Namespace, Provider: provider, Query: text, At: at, Timeout: t.spec.Timeout})
}
