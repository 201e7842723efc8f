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

// dependencies are the objects that a Rollout's release looks at, and what it waits for.
type dependencies struct {
	*plan
	// wakeAt is when the release asked to be looked at, zero for never.
	wakeAt time.Time
	// stalled is why it waits until somebody changes something, "" when it does not.
	stalled  api.Reason
	analyses *analyses
	// releasing: a release is under way, and looks at endpoints.
	releasing bool
}

// plan is what the spec of a Rollout says. It is taken apart once for all sightings of the same spec.
type plan struct {
	uid              types.UID
	generation       int64
	style            string // the annotation
	annotatedRouting string // the TrafficRouting that it names by annotation

	objects []object
	// refs are the kinds that are watched because Rollouts name them, in the versions that this one names: kinds of gateway objects, of templates, and
	// of workloads other than Deployments.
	refs []namedKind
	// workload is the object that it competes for with other Rollouts; it is among the objects.
	workload object
	// steps is how many there are, 0 when the spec cannot be read.
	steps int
	// scripts: a script may come from the ConfigMap.
	scripts bool
	// tolerant: it goes on while some of its pods are not ready, so that each one counts.
	tolerant bool
	disabled bool
	// routing is the TrafficRouting that it asks for, without a name for none.
	routing types.NamespacedName
}

// namedKind is a kind that is watched only while a Rollout names it. It may not be installed.
type namedKind struct {
	schema.GroupVersionKind
	// workload: the Rollout names it as its workload.
	workload bool
	// child: only the objects that releases created for gateway objects matter. supports: it lists the features of a route's gateway. backend: its
	// objects replace Services of their names. policy: its objects are attached to Services.
	child, supports, backend, policy bool
	// read tells how gateway objects name its objects, which their scripts read. Its Field is "" for kinds that no script reads.
	read script.Reads
}

// object identifies an object by what it is called; versions do not matter.
type object struct {
	group, kind string
	name        types.NamespacedName
}

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
	routingKind    = schema.GroupKind{Group: api.Group, Kind: api.KindTrafficRouting}
)

// startsMeasuring reports whether an analyzer is to look because something is to be measured that was not before, or in another way.
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

// planOf is what the spec of a Rollout says: as is known already, unless it is another one.
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

// newPlan takes a spec apart. One that cannot be read depends on nothing but itself.
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
	if workload.GroupKind() == deploymentKind { // this kind is always watched, and may have a canary Deployment
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

// addRoute adds a gateway object and the kind of it.
func (p *plan) addRoute(kind schema.GroupVersionKind, namespace, name string) {
	if kind.Group == "" || kind.Kind == "" { // which no gateway's kind is
		return
	}
	p.addKind(namedKind{GroupVersionKind: kind})
	p.addObject(object{kind.Group, kind.Kind, types.NamespacedName{Namespace: namespace, Name: name}})
	// Whether the kind belongs to a namespace only the API server knows.
	p.addObject(object{kind.Group, kind.Kind, types.NamespacedName{Name: name}})
}

// namesInstallableKind reports whether a kind that it names is one that is installed into a cluster, and not part of every one.
func (p *plan) namesInstallableKind() bool {
	return slices.ContainsFunc(p.refs, func(kind namedKind) bool { return kind.Group != deploymentKind.Group })
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
			p.addKind(namedKind{GroupVersionKind: schema.GroupVersionKind{Group: api.GroupSluice, Version: api.V1alpha1, Kind: kind}})
			p.addObject(object{api.GroupSluice, kind, name})
		}
	}
}
