package watcher

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// dependencies are the objects that a Rollout's release depends on, and the times and states that it waits for.
type dependencies struct {
	*plan
	// wakeAt is the time at which the release asked for a run, zero for never.
	wakeAt time.Time
	// stalled is the reason of a stalled release, "" if it is not stalled.
	stalled  api.Reason
	analyses *analyses
	// releasing is true while a release is under way, which depends on endpoints.
	releasing bool
}

// plan has the dependencies in the spec of a Rollout. The watcher parses a spec once for all views of it.
type plan struct {
	uid              types.UID
	generation       int64
	style            string // the annotation with the rolling style
	annotatedRouting string // the TrafficRouting in the annotation

	objects []object
	// refs are the kinds that are watched because Rollouts name them, in the versions that this Rollout names. They are
	// the kinds of gateway objects, of templates, and of workloads that are not Deployments.
	refs []namedKind
	// workload is the object that the Rollout competes for with other Rollouts; it is among the objects.
	workload object
	// steps is the number of steps, 0 if the spec cannot be parsed.
	steps int
	// scripts is true if a script may come from the ConfigMap.
	scripts bool
	// tolerant is true if the release continues while some of its pods are not ready. Then each pod counts.
	tolerant bool
	disabled bool
	// routing is the TrafficRouting that the Rollout asks for; its name is empty if it asks for none.
	routing types.NamespacedName
}

// namedKind is a kind that is watched only while a Rollout names it. It may not be installed.
type namedKind struct {
	schema.GroupVersionKind
	// workload is true if a Rollout names the kind as its workload.
	workload bool
	// child is true for a kind whose objects matter only if a release created them. supports is true for a kind that
	// says what a route's gateway supports. backend is true for a kind whose objects stand for the Services of their
	// names. policy is true for a kind whose objects are attached to Services.
	child, supports, backend, policy bool
	// read says how gateway objects name objects of the kind, which their scripts read. Its Field is "" for kinds that
	// no script reads.
	read script.Reads
}

// object identifies an object by group, kind and name, regardless of the version.
type object struct {
	group, kind string
	name        types.NamespacedName
}

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
	routingKind    = schema.GroupKind{Group: api.Group, Kind: api.KindTrafficRouting}
)

// startsMeasuring reports whether an analyzer must reconcile, because a measurement starts or changes.
func (d *dependencies) startsMeasuring(old *dependencies) bool {
	if old == nil || old.plan == nil {
		return d.analyses.anyMeasured()
	}
	return d.analyses.anyBegan(old.analyses) || d.analyses.anyMeasured() && (d.generation != old.generation || d.uid != old.uid)
}

func dependenciesOf(s *rolloutView, p *plan) *dependencies {
	d := &dependencies{plan: p, wakeAt: s.wakeAt(), analyses: analysesOf(s, p.disabled)}
	if m := s.status.Sluice; m != nil {
		d.releasing = rollout.State(m.State).Releasing()
	}
	for _, c := range s.status.Conditions {
		if c.Type == api.ConditionStalled && c.Status == corev1.ConditionTrue {
			d.stalled = c.Reason
		}
	}
	return d
}

// planOf returns the plan of a Rollout's spec: the known plan if the spec has not changed, or a new one.
func (x *index) planOf(s *rolloutView) *plan {
	x.mu.Lock()
	known := x.rollouts[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
	x.mu.Unlock()
	if known != nil && known.plan != nil && known.uid == s.UID && known.generation == s.Generation && known.style == s.Annotations[api.AnnotationRollingStyle] &&
		known.annotatedRouting == s.Annotations[api.AnnotationTrafficRouting] {
		return known.plan
	}
	return newPlan(s)
}

// newPlan returns the plan of a spec. A Rollout with an invalid spec depends on itself only.
func newPlan(s *rolloutView) *plan {
	p := &plan{
		uid: s.UID, generation: s.Generation, style: s.Annotations[api.AnnotationRollingStyle], annotatedRouting: s.Annotations[api.AnnotationTrafficRouting],
	}
	r, err := s.withoutStatus()
	if err != nil {
		return p
	}
	spec, err := rollout.Parse(r)
	if err != nil {
		return p
	}
	add := func(kind schema.GroupKind, name string) {
		p.addObject(object{kind.Group, kind.Kind, types.NamespacedName{Namespace: s.Namespace, Name: name}})
	}
	p.steps, p.tolerant, p.disabled = len(spec.Steps), spec.FailureThreshold != rollout.Amount{}, spec.Disabled
	workload := schema.FromAPIVersionAndKind(spec.Workload.APIVersion, spec.Workload.Kind)
	add(workload.GroupKind(), spec.Workload.Name)
	p.workload = p.objects[0]
	if workload.GroupKind() == deploymentKind { // Deployments are always watched, and may have a canary
		add(deploymentKind, spec.Workload.Name+api.SuffixCanary)
	} else {
		p.addKind(namedKind{GroupVersionKind: workload, workload: true})
	}
	p.addTemplates(s.Namespace, spec)
	if spec.TrafficRouting != "" {
		p.routing = types.NamespacedName{Namespace: s.Namespace, Name: spec.TrafficRouting}
		add(routingKind, spec.TrafficRouting)
	}
	p.scripts = len(spec.Routing) > 0
	for _, routing := range spec.Routing {
		add(serviceKind, routing.Service)
		if routing.SeparateService() {
			add(serviceKind, routing.CanaryService)
		}
		for _, ref := range routing.Objects {
			p.addRoute(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), s.Namespace, ref.Name)
		}
	}
	return p
}

func (p *plan) addObject(o object) {
	if !slices.Contains(p.objects, o) {
		p.objects = append(p.objects, o)
	}
}

func (p *plan) addKind(kind namedKind) {
	if !slices.Contains(p.refs, kind) {
		p.refs = append(p.refs, kind)
	}
}

// addRoute adds a gateway object and its kind.
func (p *plan) addRoute(kind schema.GroupVersionKind, namespace, name string) {
	if kind.Group == "" || kind.Kind == "" { // no kind of gateway objects is like that
		return
	}
	p.addKind(namedKind{GroupVersionKind: kind})
	p.addObject(object{kind.Group, kind.Kind, types.NamespacedName{Namespace: namespace, Name: name}})
	// Only the API server knows whether the kind is namespaced, so the cluster-scoped name is added too.
	p.addObject(object{kind.Group, kind.Kind, types.NamespacedName{Name: name}})
}

// namesInstallableKind reports whether the plan names a kind that an administrator installs, and that not every cluster
// has.
func (p *plan) namesInstallableKind() bool {
	return slices.ContainsFunc(p.refs, func(kind namedKind) bool { return kind.Group != deploymentKind.Group })
}

// addTemplates adds the templates of the steps and of the whole release.
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
			p.addKind(namedKind{GroupVersionKind: schema.GroupVersionKind{Group: api.GroupSluice, Version: api.V1alpha1, Kind: kind}})
			p.addObject(object{api.GroupSluice, kind, name})
		}
	}
}
