package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// templatesByRef has templates of metrics by their references; nil for a template that does not exist.
type templatesByRef map[rollout.TemplateRef]*api.AnalysisTemplate

// readTemplates reads the templates that a Rollout of the observation's namespace names. It notes in the snapshot what
// it read.
func (o *observation) readTemplates(ctx context.Context, refs []rollout.TemplateRef) (templatesByRef, error) {
	o.client.informers.requestTemplates()
	found, seen := templatesByRef{}, map[trackedItem]itemVersion{}
	for _, ref := range refs {
		if _, known := found[ref]; known {
			continue
		}
		t, err := o.readTemplate(ctx, ref)
		if err != nil {
			return nil, err
		}
		found[ref] = t
		seen[o.itemOfTemplate(ref)] = itemVersion{fingerprint: fingerprintOf(t)}
	}
	o.snapshot.templates = seen
	return found, nil
}

func (o *observation) itemOfTemplate(ref rollout.TemplateRef) trackedItem {
	if ref.ClusterScope {
		return trackedItem{clusterTemplateItem, "/" + ref.Name}
	}
	return trackedItem{templateItem, o.keyOf(ref.Name).String()}
}

func (o *observation) readTemplate(ctx context.Context, ref rollout.TemplateRef) (*api.AnalysisTemplate, error) {
	c := o.client
	if !ref.ClusterScope {
		return fetchObject(ctx, o, objectQuery[*api.AnalysisTemplate]{overlay: c.informers.templates, name: o.keyOf(ref.Name), expected: true, onAnswer: func() {},
			call: func(ctx context.Context) (*api.AnalysisTemplate, error) {
				t := &api.AnalysisTemplate{}
				return t, c.templates.Get().Namespace(o.namespace).Resource("analysistemplates").Name(ref.Name).Do(ctx).Into(t)
			}})
	}
	t, err := fetchObject(ctx, o, objectQuery[*api.ClusterAnalysisTemplate]{overlay: c.informers.clusterTemplates, name: types.NamespacedName{Name: ref.Name}, expected: true, onAnswer: func() {},
		call: func(ctx context.Context) (*api.ClusterAnalysisTemplate, error) {
			t := &api.ClusterAnalysisTemplate{}
			return t, c.templates.Get().Resource("clusteranalysistemplates").Name(ref.Name).Do(ctx).Into(t)
		}})
	if err != nil || t == nil {
		return nil, err
	}
	return &api.AnalysisTemplate{ObjectMeta: t.ObjectMeta, Spec: t.Spec}, nil
}

// templatesOf returns all templates that a Rollout names. The templates of its steps come first.
func templatesOf(spec rollout.Spec) (refs []rollout.TemplateRef) {
	for _, step := range spec.Steps {
		if step.Analysis != nil {
			refs = append(refs, step.Analysis.Templates...)
		}
	}
	if spec.ReleaseAnalysis != nil {
		refs = append(refs, spec.ReleaseAnalysis.Templates...)
	}
	return refs
}
