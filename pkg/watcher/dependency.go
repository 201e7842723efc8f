package watcher

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// dependencies are the objects that a Rollout's release looks at.
type dependencies struct {
	objects []object
	// refs are the gateway kinds, in the versions that the Rollout names.
	refs map[schema.GroupVersionKind]bool
	// workload is the object that it competes for with other Rollouts; it is among the objects.
	workload object
	// wakeAt is when the release asked to be looked at, zero for never.
	wakeAt time.Time
	// scripts: a script may come from the ConfigMap.
	scripts bool
	// held is why it waits until somebody changes something, "" when it does not.
	held api.Reason
	// tolerant: it goes on while some of its pods are not ready, so that each one counts.
	tolerant bool
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

func dependenciesOf(u *unstructured.Unstructured) *dependencies {
	d := &dependencies{refs: map[schema.GroupVersionKind]bool{}}
	var r api.Rollout
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
		return d
	}
	if s := r.Status.Sluice; s != nil && s.WakeAt != nil {
		d.wakeAt = s.WakeAt.Time
	}
	for _, c := range r.Status.Conditions {
		if c.Type == api.ConditionHeld && c.Status == corev1.ConditionTrue {
			d.held = c.Reason
		}
	}
	// A spec that cannot be parsed depends on nothing but itself.
	spec, err := rollout.Parse(&r)
	if err != nil {
		return d
	}
	add := func(kind schema.GroupKind, name string) {
		d.objects = append(d.objects, object{kind.Group, kind.Kind, types.NamespacedName{Namespace: r.Namespace, Name: name}})
	}
	d.tolerant = spec.FailureThreshold != rollout.Amount{}
	add(deploymentKind, spec.Workload.Name)
	d.workload = d.objects[0]
	add(deploymentKind, spec.Workload.Name+api.SuffixCanary)
	if spec.Routing == nil {
		return d
	}
	d.scripts = true
	add(serviceKind, spec.Routing.Service)
	if spec.Routing.SeparateService() {
		add(serviceKind, spec.Routing.CanaryService)
	}
	for _, ref := range spec.Routing.Objects {
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		d.refs[gvk] = true
		add(gvk.GroupKind(), ref.Name)
	}
	return d
}

// index finds the Rollouts that depend on an object.
type index struct {
	mu       sync.Mutex
	rollouts map[types.NamespacedName]*dependencies
	byObject map[object]map[types.NamespacedName]bool
	// claims are the Rollouts whose marks workloads carry, by workload.
	claims map[types.NamespacedName]types.NamespacedName
}

func newIndex() *index {
	return &index{
		rollouts: map[types.NamespacedName]*dependencies{}, byObject: map[object]map[types.NamespacedName]bool{},
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
	if old = x.rollouts[name]; old != nil {
		for _, o := range old.objects {
			delete(x.byObject[o], name)
			if len(x.byObject[o]) == 0 {
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
		if x.byObject[o] == nil {
			x.byObject[o] = map[types.NamespacedName]bool{}
		}
		x.byObject[o][name] = true
	}
	return old
}

func (x *index) dependents(o object) []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []types.NamespacedName
	for name := range x.byObject[o] {
		names = append(names, name)
	}
	return names
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

// routeKinds are the gateway kinds that any Rollout names.
func (x *index) routeKinds() map[schema.GroupVersionKind]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, d := range x.rollouts {
		for gvk := range d.refs {
			kinds[gvk] = true
		}
	}
	return kinds
}

// tolerant reports whether a Rollout goes on while some of its pods are not ready.
func (x *index) tolerant(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.tolerant
}
