package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// templatesByRef are templates of metrics by what Rollouts call them; nil for one that does not exist.
type templatesByRef map[rollout.TemplateRef]*api.AnalysisTemplate

func (m *Informers) addTemplates(w apiClients, touched func(trackedItem)) (err error) {
	lw := ListWatchREST(w.templates, "analysistemplates", func() runtime.Object { return &api.AnalysisTemplateList{} })
	if m.Templates, err = NewOverlay(&api.AnalysisTemplate{}, lw, func(t *api.AnalysisTemplate) { TrimMetadata(t) }, nil,
		func(t *api.AnalysisTemplate) { touched(itemOf(templateItem, t)) }); err != nil {
		return err
	}
	lw = ListWatchREST(w.templates, "clusteranalysistemplates", func() runtime.Object { return &api.ClusterAnalysisTemplateList{} })
	m.ClusterTemplates, err = NewOverlay(&api.ClusterAnalysisTemplate{}, lw, func(t *api.ClusterAnalysisTemplate) { TrimMetadata(t) }, nil,
		func(t *api.ClusterAnalysisTemplate) { touched(itemOf(clusterTemplateItem, t)) })
	return err
}

// startTemplates watches templates until ctx is done. A second call does nothing.
func (m *Informers) startTemplates(ctx context.Context, running *sync.WaitGroup, c *Client) {
	if m.Templates.Running.Load() {
		return
	}
	m.Templates.Running.Store(true)
	StartWatch(ctx, running, c, "analysistemplates."+api.GroupSluice, m.Templates)
	StartWatch(ctx, running, c, "clusteranalysistemplates."+api.GroupSluice, m.ClusterTemplates)
}

// RequestTemplates has templates watched from now on, if anything is.
func (m *Informers) RequestTemplates() {
	if !m.Rollouts.Running.Load() || m.Templates.Running.Load() {
		return
	}
	select {
	case m.TemplatesRequested <- struct{}{}:
	default: // somebody has asked already
	}
}

// readTemplates reads what a Rollout of the observation's namespace names. It notes in the snapshot what it saw.
func (o *observation) readTemplates(ctx context.Context, refs []rollout.TemplateRef) (templatesByRef, error) {
	o.client.informers.RequestTemplates()
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
		return fetchObject(ctx, o, objectQuery[*api.AnalysisTemplate]{overlay: c.informers.Templates, name: o.keyOf(ref.Name), expected: true, onAnswer: func() {},
			call: func(ctx context.Context) (*api.AnalysisTemplate, error) {
				t := &api.AnalysisTemplate{}
				return t, c.templates.Get().Namespace(o.namespace).Resource("analysistemplates").Name(ref.Name).Do(ctx).Into(t)
			}})
	}
	t, err := fetchObject(ctx, o, objectQuery[*api.ClusterAnalysisTemplate]{overlay: c.informers.ClusterTemplates, name: types.NamespacedName{Name: ref.Name}, expected: true, onAnswer: func() {},
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
