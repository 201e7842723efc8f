package analysistry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/analysistry"
	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/metric"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// provider answers queries by their text, and records them.
type provider struct {
	// ranges are the answers to range queries.
	answers, ranges map[string]metric.Answer
	asked           []metric.Request
}

func (p *provider) Query(_ context.Context, r metric.Request) (metric.Answer, error) {
	p.asked = append(p.asked, r)
	answers := p.answers
	if r.Range != nil {
		answers = p.ranges
	}
	answer, ok := answers[r.Query]
	if !ok {
		return metric.Answer{}, errors.New("Prometheus cannot read the query")
	}
	return answer, nil
}

// vector returns an answer with these values, which differ in the label pod.
func vector(values ...float64) metric.Answer {
	a := metric.Answer{Result: analysis.Result{Kind: analysis.KindVector}}
	for i, v := range values {
		a.Series = append(a.Series, analysis.Series{Labels: map[string]string{"pod": fmt.Sprint(i)}, Points: []analysis.Point{{At: now, Value: v}}})
	}
	return a
}

func template(t *testing.T, text string) analysistry.Template {
	t.Helper()
	list, err := analysistry.ReadTemplates(strings.NewReader("apiVersion: sluice.dev/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: t}\nspec:\n" + text))
	if err != nil || len(list) != 1 {
		t.Fatalf("%d templates: %v", len(list), err)
	}
	return list[0]
}

func TestArgumentsOfARolloutAreMadeUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given map[string]string
		want  string
	}{
		"out of nothing":        {nil, "shop app app app-canary unknown 1"},
		"out of the workload":   {map[string]string{"workload": "web"}, "shop web web web-canary unknown 1"},
		"out of the Rollout":    {map[string]string{"rollout": "web"}, "shop web web web-canary unknown 1"},
		"out of the Service":    {map[string]string{"stableService": "web"}, "shop web web web-canary unknown 1"},
		"but for what is given": {map[string]string{"workload": "web", "namespace": "other", "canaryService": "next", "canaryHash": "5d4f", "step": "3"}, "other web web next 5d4f 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{}
			report, err := template(t, `  metrics: [{name: m, interval: 30s, passWhen: value > 0, prometheus: {address: "http://p",
    query: "{{args.namespace}} {{args.rollout}} {{args.stableService}} {{args.canaryService}} {{args.canaryHash}} {{args.step}}"}}]`).
				Run(t.Context(), p, analysistry.Options{Args: test.given, Namespace: "shop", Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.asked[0].Query); diff != "" {
				t.Error(diff)
			}
			for _, a := range report.Arguments {
				if _, given := test.given[a.Name]; given != (a.From == analysistry.FromUser) {
					t.Errorf("%s is said to be %s", a.Name, a.From)
				}
			}
		})
	}
}

func TestWhatIsAskedAndShown(t *testing.T) {
	t.Parallel()
	p := &provider{answers: map[string]metric.Answer{"many": vector(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}}
	remarked := vector(0.5)
	remarked.Infos = []string{"metric might not be a counter"}
	p.answers["one"] = remarked
	report, err := template(t, `  metrics:
  - {name: many, interval: 30s, reduce: max, passWhen: value > 5, prometheus: {address: "http://p", query: many, headers: [{name: X-Scope-OrgID, value: "{{args.namespace}}"}], auth: {secretRef: {name: s}}}}
  - {name: one, interval: 30s, dryRun: true, failWhen: value < 0.9, prometheus: {address: "http://q", query: one}}
  - {name: wrong, interval: 30s, failWhen: value < 0.9, prometheus: {address: "http://q", query: wrong}}`).
		Run(t.Context(), p, analysistry.Options{Namespace: "shop", Token: "secret", Prometheus: "http://other:9090", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	first := p.asked[0]
	if diff := cmp.Diff(metric.Provider{Address: "http://other:9090", Headers: map[string]string{"X-Scope-OrgID": "shop"}, Secret: map[string][]byte{"token": []byte("secret")}}, first.Provider); diff != "" {
		t.Error(diff)
	}
	var outcomes []analysis.Outcome
	for _, m := range report.Metrics {
		outcomes = append(outcomes, m.Outcome)
	}
	if diff := cmp.Diff([]analysis.Outcome{"pass", "fail", "error"}, outcomes); diff != "" {
		t.Error(diff)
	}
	text := strings.Join(report.Text(color.Ink{}), "\n")
	for _, want := range []string{
		`-> {pod="7"} 8` + "\n               -> and 2 more series\n", "Prometheus remarks: metric might not be a counter\n", "-> Prometheus cannot read the query\n",
		"every 30s; for as long as the step or the release lasts, 0 may fail; from 0s after a change of traffic on; decides nothing (dryRun)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "is not read here") {
		t.Errorf("it warns of credentials that are given:\n%s", text)
	}
}

// history answers a range query with 720 ticks of a value.
func history(value float64) metric.Answer {
	s := analysis.Series{}
	for i := range 720 {
		s.Points = append(s.Points, analysis.Point{At: now.Add(time.Duration(i-720) * 30 * time.Second), Value: value})
	}
	return metric.Answer{Result: analysis.Result{Kind: analysis.KindMatrix, Series: []analysis.Series{s}}}
}

func TestAComparisonLooksAtTheLastIntervals(t *testing.T) {
	t.Parallel()
	p := &provider{answers: map[string]metric.Answer{}, ranges: map[string]metric.Answer{}}
	counts := ""
	for _, c := range []struct {
		field, name string
		value       float64
	}{{"canaryBad", "cb", 50}, {"canaryTotal", "ct", 1000}, {"stableBad", "sb", 1}, {"stableTotal", "st", 1000}} {
		query := "sum(increase(" + c.name + "[30s]))"
		p.answers[query], p.ranges[query] = vector(c.value), history(c.value)
		counts += fmt.Sprintf("%s: %q, ", c.field, "sum(increase("+c.name+"[{{args.interval}}]))")
	}
	report, err := template(t, `  metrics: [{name: m, interval: 30s, prometheus: {address: "http://p"}, compare: {counts: {`+counts+`}}}]`).
		Run(t.Context(), p, analysistry.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	m := report.Metrics[0]
	if m.Outcome != analysis.OutcomeFail || len(m.Queries) != 4 {
		t.Errorf("it is %s by %d queries: %s", m.Outcome, len(m.Queries), m.Message)
	}
	if want := "in 6h, 0.1 % of the stable group's requests were bad"; !strings.Contains(strings.Join(report.Text(color.Ink{}), "\n"), want) {
		t.Errorf("the text lacks %q: %s", want, m.Past)
	}
	if first := p.asked[0].At; !first.Equal(now.Add(-4 * 30 * time.Second)) {
		t.Errorf("it looks back to %s", first)
	}
	var last time.Time
	for _, r := range p.asked {
		if r.Range == nil {
			if r.At.Before(last) {
				t.Errorf("%s comes after %s", r.At, last)
			}
			last = r.At
		}
	}
}

func TestAWindowThatIsTooShortIsToldOf(t *testing.T) {
	t.Parallel()
	scraped := func(every time.Duration) map[string]metric.Answer {
		up := metric.Answer{Result: analysis.Result{Kind: analysis.KindMatrix, Series: []analysis.Series{{}}}}
		for at := now.Add(-5 * time.Minute); at.Before(now); at = at.Add(every) {
			up.Series[0].Points = append(up.Series[0].Points, analysis.Point{At: at, Value: 1})
		}
		top := vector(20)
		top.Series[0].Labels = map[string]string{"job": "shop"}
		return map[string]metric.Answer{"rate(x[1m])": vector(1), "topk(1, count_over_time(up[5m]))": top, `up{job="shop"}[5m]`: up}
	}
	for every, want := range map[time.Duration][]string{
		15 * time.Second: nil,
		20 * time.Second: {"The queries look back over 1m, and Prometheus scrapes its quickest target every 20s: rates of so few samples are rough; let them look back over 1m20s at least."},
		45 * time.Second: {"The queries look back over 1m, and Prometheus scrapes its quickest target every 45s: no rate can be told from fewer than two samples; let them look back over 3m at least.",
			"The interval of 30s is shorter than the 45s between two scrapes, so that the same samples are judged again; make it longer."},
	} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			report, err := template(t, `  metrics: [{name: m, interval: 30s, passWhen: value > 0, prometheus: {address: "http://p", query: "rate(x[1m])"}}]`).
				Run(t.Context(), &provider{answers: scraped(every)}, analysistry.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, report.Metrics[0].Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}
