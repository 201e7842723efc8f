package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// templates are templates of metrics by what Rollouts call them; nil for one that does not exist.
type templates map[rollout.TemplateRef]*api.AnalysisTemplate

func (m *mirrors) mirrorTemplates(w clients, touched func(item)) (err error) {
	lw := ours(w.templates, "analysistemplates", func() runtime.Object { return &api.AnalysisTemplateList{} })
	if m.templates, err = mirrorOf(&api.AnalysisTemplate{}, lw, func(t *api.AnalysisTemplate) { trimMetadata(t) }, nil,
		func(t *api.AnalysisTemplate) { touched(itemOf(templateItem, t)) }); err != nil {
		return err
	}
	lw = ours(w.templates, "clusteranalysistemplates", func() runtime.Object { return &api.ClusterAnalysisTemplateList{} })
	m.clusterTemplates, err = mirrorOf(&api.ClusterAnalysisTemplate{}, lw, func(t *api.ClusterAnalysisTemplate) { trimMetadata(t) }, nil,
		func(t *api.ClusterAnalysisTemplate) { touched(itemOf(clusterTemplateItem, t)) })
	return err
}

// keepTemplates watches templates until ctx is done. A second call does nothing.
func (m *mirrors) keepTemplates(ctx context.Context, running *sync.WaitGroup, c *Client) {
	if m.templates.running.Load() {
		return
	}
	m.templates.running.Store(true)
	keep(ctx, running, c, "analysistemplates."+api.GroupSluice, m.templates)
	keep(ctx, running, c, "clusteranalysistemplates."+api.GroupSluice, m.clusterTemplates)
}

// watchTemplates has templates watched from now on, if anything is.
func (m *mirrors) watchTemplates() {
	if !m.rollouts.running.Load() || m.templates.running.Load() {
		return
	}
	select {
	case m.measured <- struct{}{}:
	default: // somebody has asked already
	}
}

// readTemplates reads what a Rollout of the observation's namespace names. It notes in the snapshot what it saw.
func (o *observation) readTemplates(ctx context.Context, refs []rollout.TemplateRef) (templates, error) {
	o.client.mirrors.watchTemplates()
	found, seen := templates{}, map[item]version{}
	for _, ref := range refs {
		if _, known := found[ref]; known {
			continue
		}
		t, err := o.readTemplate(ctx, ref)
		if err != nil {
			return nil, err
		}
		found[ref] = t
		seen[o.itemOfTemplate(ref)] = version{print: print(t)}
	}
	o.snapshot.templates = seen
	return found, nil
}

func (o *observation) itemOfTemplate(ref rollout.TemplateRef) item {
	if ref.ClusterScope {
		return item{clusterTemplateItem, "/" + ref.Name}
	}
	return item{templateItem, o.named(ref.Name).String()}
}

func (o *observation) readTemplate(ctx context.Context, ref rollout.TemplateRef) (*api.AnalysisTemplate, error) {
	c := o.client
	if !ref.ClusterScope {
		return fetch(ctx, o, query[*api.AnalysisTemplate]{mirror: c.mirrors.templates, name: o.named(ref.Name), expected: true, answered: func() {},
			call: func(ctx context.Context) (*api.AnalysisTemplate, error) {
				t := &api.AnalysisTemplate{}
				return t, c.templates.Get().Namespace(o.namespace).Resource("analysistemplates").Name(ref.Name).Do(ctx).Into(t)
			}})
	}
	t, err := fetch(ctx, o, query[*api.ClusterAnalysisTemplate]{mirror: c.mirrors.clusterTemplates, name: types.NamespacedName{Name: ref.Name}, expected: true, answered: func() {},
		call: func(ctx context.Context) (*api.ClusterAnalysisTemplate, error) {
			t := &api.ClusterAnalysisTemplate{}
			return t, c.templates.Get().Resource("clusteranalysistemplates").Name(ref.Name).Do(ctx).Into(t)
		}})
	if err != nil || t == nil {
		return nil, err
	}
	return &api.AnalysisTemplate{ObjectMeta: t.ObjectMeta, Spec: t.Spec}, nil
}

// templatesOf are all templates that a Rollout names, those of its steps first.
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
