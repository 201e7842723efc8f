package validate

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

// TestTheParserTakesWhatTheSchemaTakes checks that a template in the API server never stalls a release because of its
// limits.
func TestTheParserTakesWhatTheSchemaTakes(t *testing.T) {
	t.Parallel()
	for _, c := range TemplateCases(t) {
		if c.Expect != Accept {
			continue
		}
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			var template api.AnalysisTemplate
			if err := yaml.UnmarshalStrict(c.Object, &template); err != nil {
				t.Fatal(err)
			}
			args := map[string]string{}
			for _, a := range template.Spec.Args {
				args[a.Name] = "http://x.svc" // this value is an address as well
			}
			for _, m := range template.Spec.Metrics {
				if _, err := analysis.ParseMetric(m, args); err != nil {
					t.Errorf("%s: %v", m.Name, err)
				}
			}
		})
	}
}

// The test reads the templates of the page like those in a Rollout without arguments.
func TestTheParserTakesTheTemplatesOfThePage(t *testing.T) {
	t.Parallel()
	standard := map[string]string{api.ArgNamespace: "shop", api.ArgStableService: "checkout", api.ArgCanaryService: "checkout-canary"}
	read := 0
	for _, block := range manifests(t) {
		var template api.AnalysisTemplate
		if !strings.Contains(block, "AnalysisTemplate\n") || strings.Contains(block, "kind: Rollout\n") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(block), &template); err != nil {
			t.Fatal(err)
		}
		args, err := analysis.ResolveArguments(template.Spec.Args, nil, standard)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range template.Spec.Metrics {
			read++
			if _, err := analysis.ParseMetric(m, args); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
	if read != 2 {
		t.Errorf("the page holds %d metrics, want 2", read)
	}
}

// checkLimits sends every combination of small limits to both judges. The schema may refuse more: a limit that cannot
// be reached.
func (c templateClient) checkLimits(t *testing.T) {
	for _, m := range smallMetrics() {
		text, err := json.Marshal(map[string]any{"apiVersion": "sluice.dev/v1alpha1", "kind": "AnalysisTemplate", "spec": api.AnalysisTemplateSpec{Metrics: []api.Metric{m}}})
		if err != nil {
			t.Fatal(err)
		}
		served := c.judge(t, api.KindAnalysisTemplate, text)
		_, parsed := analysis.ParseMetric(m, nil)
		if (served == nil) != (parsed == nil) {
			t.Errorf("%s\nAPI server: %v\nparser: %v", text, served, parsed)
		}
	}
}

func smallMetrics() []api.Metric {
	var list []api.Metric
	base := api.Metric{Name: "a", Interval: "30s", Prometheus: api.Prometheus{Address: "http://p.m.svc", Query: "up"}, PassWhen: "value > 1", FailWhen: "value < 1"}
	for count := range int32(4) {
		for failures := range int32(4) {
			for inconclusive := range int32(4) {
				m := base
				m.Count, m.FailureLimit, m.InconclusiveLimit = count, failures, inconclusive
				list = append(list, m)
			}
		}
	}
	for _, policy := range []string{"", "Hold", "Pass", "Fail"} {
		for _, deadline := range []api.Duration{"", "0s", "29s", "30s", "1h", "1d"} {
			m := base
			m.NoData = &api.NoDataPolicy{Policy: policy, Deadline: deadline}
			list = append(list, m)
			m.NoData, m.Error = nil, &api.ErrorPolicy{Policy: policy, Deadline: deadline}
			list = append(list, m)
		}
	}
	for _, interval := range []api.Duration{"", "0s", "999ms", "1s", "1.5s", "1500ms", "24h", "25h", "-5s", "5", "1e3s"} {
		m := base
		m.Interval = interval
		list = append(list, m)
	}
	return append(list, smallComparisons()...)
}

func smallComparisons() []api.Metric {
	const counted = "sum(increase(a[{{args.interval}}]))"
	counts := &api.CompareCounts{CanaryBad: counted, CanaryTotal: counted, StableBad: counted, StableTotal: counted}
	base := api.Metric{Name: "a", Interval: "30s", Prometheus: api.Prometheus{Address: "http://p.m.svc"}}
	var list []api.Metric
	for _, alpha := range []float64{0, 0.01, 0.2, 0.3} {
		for _, tolerate := range []float64{0, 1, 2, 100, 101} {
			for _, ratio := range []float64{0, 1, 1.2, 1.3, 1.5, 2.4, 2.6, 18, 20, 40} {
				for _, count := range []int32{0, 5} {
					m := base
					m.Count = count
					m.Compare = &api.Compare{Counts: counts, Alpha: alpha, TolerateRatio: tolerate}
					if ratio > 0 {
						m.Compare.PassAfter = &api.PassAfter{Samples: 100, MaxRatio: ratio}
					}
					list = append(list, m)
				}
			}
		}
	}
	return list
}
