package watcher

import (
	"sync"
	"time"

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
	// wakeAt is when the release asked to be looked at, zero for never.
	wakeAt time.Time
	// scripts: a script may come from the ConfigMap.
	scripts bool
	// digest is that of the fact it was read with.
	digest string
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
	// A spec that cannot be parsed depends on nothing but itself.
	spec, err := rollout.Parse(&r)
	if err != nil {
		return d
	}
	add := func(kind schema.GroupKind, name string) {
		d.objects = append(d.objects, object{kind.Group, kind.Kind, types.NamespacedName{Namespace: r.Namespace, Name: name}})
	}
	add(deploymentKind, spec.Workload.Name)
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
}

func newIndex() *index {
	return &index{rollouts: map[types.NamespacedName]*dependencies{}, byObject: map[object]map[types.NamespacedName]bool{}}
}

// put replaces what a Rollout depends on; nil forgets the Rollout.
func (x *index) put(name types.NamespacedName, d *dependencies) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.rollouts[name]; old != nil {
		for _, o := range old.objects {
			delete(x.byObject[o], name)
			if len(x.byObject[o]) == 0 {
				delete(x.byObject, o)
			}
		}
	}
	if d == nil {
		delete(x.rollouts, name)
		return
	}
	x.rollouts[name] = d
	for _, o := range d.objects {
		if x.byObject[o] == nil {
			x.byObject[o] = map[types.NamespacedName]bool{}
		}
		x.byObject[o][name] = true
	}
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

// seen reports whether a Rollout is known with just these facts. Its wake-up time may have moved all the same; it is taken over.
func (x *index) seen(name types.NamespacedName, f *fact) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.rollouts[name]
	if old == nil || old.digest != f.digest {
		f.rollout.digest = f.digest
		return false
	}
	old.wakeAt = f.rollout.wakeAt
	return true
}
