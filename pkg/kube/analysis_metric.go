package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// AnalysisMetric is a metric of a template as one Rollout measures it.
type AnalysisMetric struct {
	analysis.Metric
	// Template is the source of the metric, as Kind/name.
	Template string
	// Digest tells different measurements of the same name apart.
	Digest string
}

// ID tells the metrics of one run apart. An edited metric gets another ID.
func (m AnalysisMetric) ID() string { return m.Template + "/" + m.Name + "@" + m.Digest }

// analysisFlaw is the reason why a metric cannot be measured.
type analysisFlaw struct {
	reason api.Reason
	// field is a path inside of the analysis.
	field string
	// text continues the sentence after the field's name, and says how to correct it.
	text string
}

// metricsOf returns the metrics of an analysis in the order of its templates. With flaws, some metrics are missing.
func metricsOf(p *analysis.Parser, a *rollout.Analysis, namespace string, found templatesByRef, standard map[string]string) (list []AnalysisMetric, flaws []analysisFlaw) {
	declared, named := map[string]bool{}, map[rollout.TemplateRef]bool{}
	for i, ref := range a.Templates {
		field, t := fmt.Sprintf("templates[%d].name", i), found[ref]
		switch {
		case named[ref]:
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisInvalid, field, fmt.Sprintf("names %s a second time. Take one of them out.", ref)})
		case t == nil && ref.ClusterScope:
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisTemplateMissing, field, fmt.Sprintf("names %s, which does not exist. Create it, or correct the name; one of the namespace is named without clusterScope.", ref)})
		case t == nil:
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisTemplateMissing, field, fmt.Sprintf("names %s, which does not exist in namespace %s. Create it, or correct the name; one of the whole cluster is named with clusterScope: true.", ref, namespace)})
		default:
			some, wrong := metricsOfTemplate(p, ref, field, t, a.Args, standard)
			list, flaws = append(list, some...), append(flaws, wrong...)
		}
		if named[ref] = true; t != nil {
			for _, arg := range t.Spec.Args {
				declared[arg.Name] = true
			}
		}
	}
	if len(flaws) > 0 {
		return list, flaws
	}
	for _, name := range slices.Sorted(maps.Keys(a.Args)) {
		if !declared[name] {
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisInvalid, "args", fmt.Sprintf("gives the argument %q, which none of the templates declares. Correct its name, or take it out.", name)})
		}
	}
	return list, flaws
}

func metricsOfTemplate(p *analysis.Parser, ref rollout.TemplateRef, field string, t *api.AnalysisTemplate, given, standard map[string]string) (list []AnalysisMetric, flaws []analysisFlaw) {
	for _, arg := range t.Spec.Args {
		if _, is := given[arg.Name]; !is && arg.Value == nil {
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisInvalid, "args", fmt.Sprintf("gives no value to the argument %q, which %s needs. Add it there, or give it a value in the template.", arg.Name, ref)})
		}
	}
	if len(flaws) > 0 {
		return nil, flaws
	}
	args, err := analysis.ResolveArguments(t.Spec.Args, given, standard)
	if err != nil {
		return nil, []analysisFlaw{{rollout.ReasonAnalysisInvalid, "args", "is not enough: " + err.Error() + "."}}
	}
	for _, d := range t.Spec.Metrics {
		m, err := p.ParseMetric(d, args)
		digest := ""
		if err == nil {
			digest, err = analysis.MetricDigest(d, args)
		}
		if err != nil {
			where := fmt.Sprintf("spec.metrics[%s]", d.Name)
			var wrong *analysis.FieldError
			if errors.As(err, &wrong) {
				where, err = where+"."+wrong.Field, errors.New(wrong.Problem)
			}
			flaws = append(flaws, analysisFlaw{rollout.ReasonAnalysisInvalid, field, fmt.Sprintf("names %s, whose %s %s.", ref, where, err)})
			continue
		}
		list = append(list, AnalysisMetric{Metric: m, Template: ref.String(), Digest: digest})
	}
	return list, flaws
}
