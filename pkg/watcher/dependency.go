package watcher

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// dependencies are the objects that a Rollout's release looks at, and what it waits for.
type dependencies struct {
	*plan
	// wakeAt is when the release asked to be looked at, zero for never.
	wakeAt time.Time
	// held is why it waits until somebody changes something, "" when it does not.
	held     api.Reason
	analyses *analyses
}

// plan is what the spec of a Rollout says. It is taken apart once for all sightings of the same spec.
type plan struct {
	uid        types.UID
	generation int64
	style      string // the annotation

	objects []object
	// refs are the kinds that may not be installed, in the versions that the Rollout names: gateways', and those of templates.
	refs []schema.GroupVersionKind
	// workload is the object that it competes for with other Rollouts; it is among the objects.
	workload object
	// steps is how many there are, 0 when the spec cannot be read.
	steps int
	// scripts: a script may come from the ConfigMap.
	scripts bool
	// tolerant: it goes on while some of its pods are not ready, so that each one counts.
	tolerant bool
	disabled bool
}

// object identifies an object by what it is called; versions do not matter.
type object struct {
	group, kind string
	name        types.NamespacedName
}

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
)

// measuring reports whether an analyzer is to look because something is to be measured that was not before, or in another way.
func (d *dependencies) measuring(old *dependencies) bool {
	if old == nil || old.plan == nil {
		return d.analyses.measured()
	}
	return d.analyses.began(old.analyses) || d.analyses.measured() && (d.generation != old.generation || d.uid != old.uid)
}

func dependenciesOf(s *sighting, p *plan) *dependencies {
	d := &dependencies{plan: p, wakeAt: s.wakeAt(), analyses: analysesOf(s, p.disabled)}
	for _, c := range s.status.Conditions {
		if c.Type == api.ConditionHeld && c.Status == corev1.ConditionTrue {
			d.held = c.Reason
		}
	}
	return d
}

// planOf is what the spec of a Rollout says: as is known already, unless it is another one.
func (x *index) planOf(s *sighting) *plan {
	x.mu.Lock()
	known := x.rollouts[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
	x.mu.Unlock()
	if known != nil && known.plan != nil && known.uid == s.UID && known.generation == s.Generation && known.style == s.Annotations[api.AnnotationRollingStyle] {
		return known.plan
	}
	return newPlan(s)
}

// newPlan takes a spec apart. One that cannot be read depends on nothing but itself.
func newPlan(s *sighting) *plan {
	p := &plan{uid: s.UID, generation: s.Generation, style: s.Annotations[api.AnnotationRollingStyle]}
	r, err := s.rollout()
	if err != nil {
		return p
	}
	spec, err := rollout.Parse(r)
	if err != nil {
		return p
	}
	add := func(kind schema.GroupKind, name string) {
		p.add(object{kind.Group, kind.Kind, types.NamespacedName{Namespace: s.Namespace, Name: name}})
	}
	p.steps, p.tolerant, p.disabled = len(spec.Steps), spec.FailureThreshold != rollout.Amount{}, spec.Disabled
	add(deploymentKind, spec.Workload.Name)
	p.workload = p.objects[0]
	add(deploymentKind, spec.Workload.Name+api.SuffixCanary)
	p.addTemplates(s.Namespace, spec)
	if spec.Routing == nil {
		return p
	}
	p.scripts = true
	add(serviceKind, spec.Routing.Service)
	if spec.Routing.SeparateService() {
		add(serviceKind, spec.Routing.CanaryService)
	}
	for _, ref := range spec.Routing.Objects {
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		p.addKind(gvk)
		add(gvk.GroupKind(), ref.Name)
	}
	return p
}

func (p *plan) add(o object) {
	if !slices.Contains(p.objects, o) {
		p.objects = append(p.objects, o)
	}
}

func (p *plan) addKind(gvk schema.GroupVersionKind) {
	if !slices.Contains(p.refs, gvk) {
		p.refs = append(p.refs, gvk)
	}
}

// addTemplates adds what the steps and the whole release are measured by.
func (p *plan) addTemplates(namespace string, spec rollout.Spec) {
	all := []*rollout.Analysis{spec.ReleaseAnalysis}
	for _, step := range spec.Steps {
		all = append(all, step.Analysis)
	}
	for _, a := range all {
		if a == nil {
			continue
		}
		for _, t := range a.Templates {
			kind, name := api.KindAnalysisTemplate, types.NamespacedName{Namespace: namespace, Name: t.Name}
			if t.ClusterScope {
				kind, name.Namespace = api.KindClusterAnalysisTemplate, ""
			}
			p.addKind(schema.GroupVersionKind{Group: api.GroupSluice, Version: api.V1alpha1, Kind: kind})
			p.add(object{api.GroupSluice, kind, name})
		}
	}
}

// index finds the Rollouts that depend on an object.
type index struct {
	mu       sync.Mutex
	rollouts map[types.NamespacedName]*dependencies
	byObject map[object][]types.NamespacedName
	// claims are the Rollouts whose marks workloads carry, by workload.
	claims map[types.NamespacedName]types.NamespacedName
}

func newIndex() *index {
	return &index{
		rollouts: map[types.NamespacedName]*dependencies{}, byObject: map[object][]types.NamespacedName{},
		claims: map[types.NamespacedName]types.NamespacedName{},
	}
}

// claim notes whose mark a workload carries; "" is nobody's. It reports whether that Rollout does not exist.
func (x *index) claim(workload types.NamespacedName, rollout string) (orphan bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if rollout == "" {
		delete(x.claims, workload)
		return false
	}
	owner := types.NamespacedName{Namespace: workload.Namespace, Name: rollout}
	x.claims[workload] = owner
	return x.rollouts[owner] == nil
}

// orphaned lists the Rollouts that do not exist and whose marks a workload carries all the same.
func (x *index) orphaned() []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []types.NamespacedName
	for _, name := range x.claims {
		if x.rollouts[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// put replaces what a Rollout depends on, and returns what it was before; nil forgets the Rollout.
func (x *index) put(name types.NamespacedName, d *dependencies) (old *dependencies) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old = x.rollouts[name]; old != nil && d != nil && old.plan == d.plan {
		x.rollouts[name] = d
		return old
	}
	if old != nil {
		for _, o := range old.objects {
			if left := slices.DeleteFunc(x.byObject[o], func(n types.NamespacedName) bool { return n == name }); len(left) > 0 {
				x.byObject[o] = left
			} else {
				delete(x.byObject, o)
			}
		}
	}
	if d == nil {
		delete(x.rollouts, name)
		return old
	}
	x.rollouts[name] = d
	for _, o := range d.objects {
		if !slices.Contains(x.byObject[o], name) {
			x.byObject[o] = append(x.byObject[o], name)
		}
	}
	return old
}

func (x *index) dependents(o object) []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.byObject[o])
}

// matching lists the Rollouts for which want holds.
func (x *index) matching(want func(*dependencies) bool) []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []types.NamespacedName
	for name, d := range x.rollouts {
		if want(d) {
			names = append(names, name)
		}
	}
	return names
}

// routeKinds are the kinds that any Rollout names and that may not be installed.
func (x *index) routeKinds() map[schema.GroupVersionKind]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, d := range x.rollouts {
		for _, gvk := range d.refs {
			kinds[gvk] = true
		}
	}
	return kinds
}

// measured reports whether anything of a Rollout's release is to be measured now.
func (x *index) measured(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.analyses.measured()
}

// tolerant reports whether a Rollout goes on while some of its pods are not ready.
func (x *index) tolerant(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.tolerant
}
