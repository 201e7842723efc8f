package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatCannotBeMeasuredIsNamed(t *testing.T) {
	t.Parallel()
	rates := rollout.TemplateRef{Name: "rates"}
	value := "http://p.m.svc"
	template := func(change ...func(*api.AnalysisTemplateSpec)) *api.AnalysisTemplate {
		spec := api.AnalysisTemplateSpec{
			Args: []api.TemplateArg{{Name: "prometheus"}},
			Metrics: []api.Metric{{Name: "success", Interval: "30s", PassWhen: "value > 0.9",
				Prometheus: api.Prometheus{Address: "{{args.prometheus}}", Query: "up{a='{{args.canaryHash}}{{args.step}}'}"}}},
		}
		for _, c := range change {
			c(&spec)
		}
		return &api.AnalysisTemplate{Spec: spec}
	}
	given := map[string]string{"prometheus": value}
	metric := func(change func(*api.Metric)) func(*api.AnalysisTemplateSpec) {
		return func(s *api.AnalysisTemplateSpec) { change(&s.Metrics[0]) }
	}
	for name, c := range map[string]struct {
		found  templatesByRef
		refs   []rollout.TemplateRef
		args   map[string]string
		reason api.Reason
		field  string
		says   string
	}{
		"nothing": {found: templatesByRef{rates: template()}, refs: []rollout.TemplateRef{rates}, args: given},
		"an address that is known in a release only": {
			found: templatesByRef{rates: template(metric(func(m *api.Metric) { m.Prometheus.Address = "http://{{args.canaryService}}" }))}, refs: []rollout.TemplateRef{rates}, args: given},
		"a template that does not exist": {
			templatesByRef{}, []rollout.TemplateRef{rates}, given, rollout.ReasonAnalysisTemplateMissing, "templates[0].name", "names AnalysisTemplate/rates, which does not exist in namespace shop"},
		"one of the cluster that does not exist": {
			templatesByRef{rates: template()}, []rollout.TemplateRef{rates, {Name: "rates", ClusterScope: true}}, given,
			rollout.ReasonAnalysisTemplateMissing, "templates[1].name", "names ClusterAnalysisTemplate/rates, which does not exist."},
		"a template that is named twice": {
			templatesByRef{rates: template()}, []rollout.TemplateRef{rates, rates}, given, rollout.ReasonAnalysisInvalid, "templates[1].name", "a second time"},
		"an argument without a value": {
			templatesByRef{rates: template()}, []rollout.TemplateRef{rates}, nil, rollout.ReasonAnalysisInvalid, "args", `gives no value to the argument "prometheus", which AnalysisTemplate/rates needs`},
		"an argument with a value of the template": {found: templatesByRef{rates: template(func(s *api.AnalysisTemplateSpec) { s.Args[0].Value = &value })}, refs: []rollout.TemplateRef{rates}},
		"an argument that no template declares": {
			templatesByRef{rates: template()}, []rollout.TemplateRef{rates}, map[string]string{"prometheus": value, "promtheus": value},
			rollout.ReasonAnalysisInvalid, "args", `gives the argument "promtheus", which none of the templates declares`},
		"an argument that is used and not declared": {
			templatesByRef{rates: template(metric(func(m *api.Metric) { m.Prometheus.Query = "{{args.app}}" }))}, []rollout.TemplateRef{rates}, given,
			rollout.ReasonAnalysisInvalid, "templates[0].name", `names AnalysisTemplate/rates, whose spec.metrics[success].prometheus.query the argument "app" is not given`},
		"an expression that is wrong": {
			templatesByRef{rates: template(metric(func(m *api.Metric) { m.PassWhen = "valu > 1" }))}, []rollout.TemplateRef{rates}, given,
			rollout.ReasonAnalysisInvalid, "templates[0].name", "spec.metrics[success].passWhen undeclared reference to 'valu'"},
		"an address that is none": {
			templatesByRef{rates: template()}, []rollout.TemplateRef{rates}, map[string]string{"prometheus": "p.m.svc"},
			rollout.ReasonAnalysisInvalid, "templates[0].name", `prometheus.address is "p.m.svc"; write an address`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := &rollout.Analysis{Templates: c.refs, Args: c.args}
			for path, spec := range map[string]rollout.Spec{
				"spec.strategy.canary.steps[1].analysis": {Steps: []rollout.Step{{}, {Analysis: asked}}},
				"spec.strategy.analysis":                 {Steps: []rollout.Step{{}}, ReleaseAnalysis: asked},
			} {
				r := &api.Rollout{}
				r.Namespace, r.Name = "shop", "checkout"
				var fields []string
				for _, p := range analysisProblems(&analysis.Parser{}, spec, r, c.found) {
					field, text, _ := strings.Cut(p.Message, " ")
					fields = append(fields, string(p.Reason)+" "+field)
					if p.Unknown || p.Warning || !strings.Contains(text, c.says) || !strings.HasSuffix(text, ".") {
						t.Errorf("%+v, want %q", p, c.says)
					}
				}
				var want []string
				if c.reason != "" {
					want = []string{string(c.reason) + " " + path + "." + c.field}
				}
				if diff := cmp.Diff(want, fields); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}
