package kube

import (
	"context"
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// checkAnalysis finds out whether the metrics of a Rollout can be measured. The executor stalls a release for a flaw
// before its first step, so that the user does not learn of it at the last one.
func (o *observation) checkAnalysis(ctx context.Context) {
	refs := templatesOf(o.snapshot.spec)
	if len(refs) == 0 {
		return
	}
	on := o.accessTo("get", api.GroupSluice, "analysistemplates", refs[0].Name)
	o.reads.Go(func() error {
		found, err := o.readTemplates(ctx, refs)
		switch {
		case apiclient.IsForbidden(err):
			p := apiclient.ForbiddenProblem(on, err)
			p.Unknown = false // everything else is known, and may be restored
			o.addProblem(p)
		case api.Unserved(err):
			o.addProblem(rollout.Problem{Reason: rollout.ReasonAnalysisTemplateMissing, Message: "The Rollout has an analysis, and this cluster does not serve AnalysisTemplate. " +
				"Install the CRDs: sluice install --print --part crds | kubectl apply --server-side -f -"})
		case err != nil:
			return fmt.Errorf("get %s: %w", on.QualifiedResource(), err)
		default:
			for _, p := range o.analysisProblems(found) {
				o.addProblem(p)
			}
		}
		return nil
	})
}

// analysisProblems caches its result, which depends on the spec and the templates alone.
func (o *observation) analysisProblems(found templatesByRef) []rollout.Problem {
	r, c := o.snapshot.rollout, o.client
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d", r.UID, r.Generation)
	for _, ref := range templatesOf(o.snapshot.spec) {
		fmt.Fprintf(&key, "\n%s %s", ref, fingerprintOf(found[ref]))
	}
	if known, ok := c.analysisProblems.Get(key.String()); ok {
		if problems, is := known.([]rollout.Problem); is {
			return problems
		}
	}
	problems := analysisProblems(&c.metricParser, o.snapshot.spec, r, found)
	c.analysisProblems.Add(key.String(), problems)
	return problems
}

func analysisProblems(p *analysis.Parser, spec rollout.Spec, r *api.Rollout, found templatesByRef) (list []rollout.Problem) {
	standard := exampleArguments(spec, r)
	check := func(path string, a *rollout.Analysis) {
		if a == nil {
			return
		}
		_, flaws := metricsOf(p, a, r.Namespace, found, standard)
		for _, f := range flaws {
			list = append(list, rollout.Problem{Reason: f.reason, Message: path + "." + f.field + " " + f.text})
		}
	}
	style := "canary"
	if r.Spec.Strategy.BlueGreen != nil {
		style = "blueGreen"
	}
	for i, step := range spec.Steps {
		check(fmt.Sprintf("spec.strategy.%s.steps[%d].analysis", style, i), step.Analysis)
	}
	check("spec.strategy.analysis", spec.ReleaseAnalysis)
	return list
}

// exampleArguments returns standard arguments that are never empty, as in a measurement.
func exampleArguments(spec rollout.Spec, r *api.Rollout) map[string]string {
	args := rollout.TemplateArguments(spec, r)
	for name := range args {
		switch name {
		case api.ArgNamespace, api.ArgRollout, api.ArgWorkload:
		case api.ArgStep, api.ArgWeight:
			args[name] = "1"
		default:
			args[name] = "x"
		}
	}
	return args
}
