package watcher

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// index finds the Rollouts that depend on an object.
type index struct {
	mu       sync.Mutex
	rollouts map[types.NamespacedName]*dependencies
	byObject map[object][]types.NamespacedName
	// claims has, by workload, the Rollouts whose marks it carries. By cluster-scoped gateway object it has the
	// Rollouts that it lists.
	claims map[object][]types.NamespacedName
	// names has the objects that an object names and a script reads. namedBy has the objects that name an object.
	names, namedBy map[object][]object
}

func newIndex() *index {
	return &index{
		rollouts: map[types.NamespacedName]*dependencies{}, byObject: map[object][]types.NamespacedName{},
		claims: map[object][]types.NamespacedName{}, names: map[object][]object{}, namedBy: map[object][]object{},
	}
}

// refer notes the objects that an object names.
func (x *index) refer(by object, names []object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.names[by] {
		remove(x.namedBy, o, by)
	}
	delete(x.names, by)
	if len(names) > 0 {
		x.names[by] = names
	}
	for _, o := range names {
		x.namedBy[o] = append(x.namedBy[o], by)
	}
}

// referrers returns the objects that name an object, directly or through other objects.
func (x *index) referrers(of object) (all []object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := []object{of}
	for len(next) > 0 {
		by := x.namedBy[next[0]]
		next = next[1:]
		for _, o := range by {
			if !slices.Contains(all, o) {
				all, next = append(all, o), append(next, o)
			}
		}
	}
	return all
}

// remove removes a value from a list, and the list from the map when it is empty.
func remove[K, V comparable](lists map[K][]V, key K, value V) {
	if left := slices.DeleteFunc(lists[key], func(v V) bool { return v == value }); len(left) > 0 {
		lists[key] = left
	} else {
		delete(lists, key)
	}
}

// setClaims notes the owners whose marks an object carries. It returns the owners that do not exist.
func (x *index) setClaims(by object, owners ...types.NamespacedName) (orphans []types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(owners) == 0 {
		delete(x.claims, by)
		return nil
	}
	x.claims[by] = owners
	return x.missingOwners(owners)
}

// orphanedOwners lists the Rollouts that do not exist although an object carries their marks.
func (x *index) orphanedOwners() []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []types.NamespacedName
	for _, owners := range x.claims {
		names = append(names, x.missingOwners(owners)...)
	}
	return names
}

func (x *index) missingOwners(owners []types.NamespacedName) (names []types.NamespacedName) {
	for _, name := range owners {
		if x.rollouts[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// putDependencies replaces the dependencies of a Rollout, and returns the old ones; nil forgets the Rollout.
func (x *index) putDependencies(name types.NamespacedName, d *dependencies) (old *dependencies) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old = x.rollouts[name]; old != nil && d != nil && old.plan == d.plan {
		x.rollouts[name] = d
		return old
	}
	if old != nil {
		for _, o := range old.objects {
			remove(x.byObject, o, name)
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

func (x *index) dependentsOf(o object) []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.byObject[o])
}

// namesMatching lists the Rollouts for which want holds.
func (x *index) namesMatching(want func(*dependencies) bool) []types.NamespacedName {
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

// namedKinds returns the kinds that are watched because a Rollout names them.
func (x *index) namedKinds() map[namedKind]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	kinds := map[namedKind]bool{}
	for _, d := range x.rollouts {
		for _, kind := range d.refs {
			kinds[kind] = true
		}
	}
	return kinds
}

// isMeasured reports whether the analyzer must measure a Rollout's release now.
func (x *index) isMeasured(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.analyses.anyMeasured()
}

// isReleasing reports whether a release of a Rollout is under way.
func (x *index) isReleasing(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.releasing
}

// isTolerant reports whether a Rollout continues while some of its pods are not ready.
func (x *index) isTolerant(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.rollouts[name]
	return d != nil && d.tolerant
}
