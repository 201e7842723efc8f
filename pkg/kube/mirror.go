package kube

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// object is a pointer to an object of the API.
type object interface {
	metav1.Object
	runtime.Object
	comparable
}

// mirror is what a watch has shown of one resource, together with what this process has written or read live since: nobody here
// ever sees an object as it was before a write of ours. Objects of a mirror are shared; who changes one copies it first.
type mirror[T object] struct {
	informer cache.SharedIndexInformer
	// running: the watch was started. failing: it broke, and was not begun anew yet.
	running, failing atomic.Bool

	mu sync.Mutex
	// newer are objects that the watch may not have shown yet, by namespace and name.
	newer map[string]T
	// going are objects that were deleted, or will be once their finalizers are done.
	going map[types.UID]departure
}

// departure is the end of an object. One that lingers is seen, as being deleted, until the watch shows it gone.
type departure struct {
	lingers bool
	at      time.Time
}

// manyNewer is from how many objects on what the watch has caught up with is forgotten, departureMemory for how long a deletion
// is remembered that the watch has not shown.
const (
	manyNewer       = 1024
	departureMemory = time.Hour
)

// usable reports whether the mirror may be asked: the first list is in, and the watch stands.
func (m *mirror[T]) usable() bool {
	return m != nil && m.running.Load() && !m.failing.Load() && m.informer.HasSynced()
}

// get is the object of that name, nil when there is none; known is false when the mirror cannot tell.
func (m *mirror[T]) get(name types.NamespacedName) (found T, known bool) {
	if !m.usable() {
		return found, false
	}
	// In this order: what is read last is at least as new as the version.
	upTo := m.upTo()
	item, exists, err := m.informer.GetStore().GetByKey(storeKey(name))
	if err != nil {
		return found, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if own, ok := m.newer[name.String()]; ok {
		// The watch may also have passed by what it never showed.
		shown, is := item.(T)
		if isNewer(own.GetResourceVersion(), upTo) || exists && is && isNewer(own.GetResourceVersion(), shown.GetResourceVersion()) {
			return m.still(own), true
		}
		delete(m.newer, name.String())
	}
	if shown, ok := item.(T); exists && ok {
		return m.still(shown), true
	}
	return found, true
}

// storeKey is how an informer calls an object.
func storeKey(name types.NamespacedName) string {
	if name.Namespace == "" {
		return name.Name
	}
	return name.String()
}

// upTo is the resourceVersion up to which the mirror has seen everything.
func (m *mirror[T]) upTo() string { return m.informer.GetStore().LastStoreSyncResourceVersion() }

// still is the object as it is after deletions that are known of.
func (m *mirror[T]) still(o T) T {
	gone, ok := m.going[o.GetUID()]
	switch {
	case !ok:
		return o
	case !gone.lingers:
		var none T
		return none
	case o.GetDeletionTimestamp() != nil:
		return o
	}
	return leaving(o, gone.at)
}

// leaving is a copy of an object that is being deleted since a time.
func leaving[T object](o T, since time.Time) T {
	copied, ok := o.DeepCopyObject().(T)
	if !ok {
		return o
	}
	at := metav1.NewTime(since)
	copied.SetDeletionTimestamp(&at)
	return copied
}

// by lists what has a value in an index; known is false when the mirror cannot tell.
func (m *mirror[T]) by(index, value string) (found []T, known bool) {
	if !m.usable() {
		return nil, false
	}
	items, err := m.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil, false
	}
	return objects[T](items), true
}

// inNamespace lists what is in a namespace; known is false when the mirror cannot tell.
func (m *mirror[T]) inNamespace(namespace string) (found []T, known bool) {
	shown, known := m.by(cache.NamespaceIndex, namespace)
	if !known {
		return nil, false
	}
	names := map[string]bool{}
	for _, o := range shown {
		names[o.GetName()] = true
	}
	m.mu.Lock()
	for _, own := range m.newer {
		if own.GetNamespace() == namespace {
			names[own.GetName()] = true
		}
	}
	m.mu.Unlock()
	var none T
	for name := range names {
		o, known := m.get(types.NamespacedName{Namespace: namespace, Name: name})
		if !known {
			return nil, false
		}
		if o != none {
			found = append(found, o)
		}
	}
	return found, true
}

// all are what the watch has shown.
func (m *mirror[T]) all() []T {
	if !m.usable() {
		return nil
	}
	return objects[T](m.informer.GetStore().List())
}

// objects are the items of a store that are what it is for.
func objects[T object](items []any) (found []T) {
	for _, item := range items {
		if o, ok := item.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// saw takes in an object as the API server has just answered it.
func (m *mirror[T]) saw(o T) {
	if m == nil || !m.running.Load() {
		return
	}
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}.String()
	upTo := m.upTo()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.newer) >= manyNewer {
		maps.DeleteFunc(m.newer, func(_ string, o T) bool { return !isNewer(o.GetResourceVersion(), upTo) })
	}
	if own, ok := m.newer[name]; !ok || isNewer(o.GetResourceVersion(), own.GetResourceVersion()) {
		m.newer[name] = o
	}
}

// left takes in that an object is deleted; it is seen until the watch shows it gone if it lingers.
func (m *mirror[T]) left(uid types.UID, lingers bool) {
	if m == nil || !m.running.Load() {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.going) >= manyNewer {
		maps.DeleteFunc(m.going, func(_ types.UID, d departure) bool { return now.Sub(d.at) > departureMemory })
	}
	m.going[uid] = departure{lingers: lingers, at: now}
}

// absent takes in that the API server knows no object of that name: what the mirror has of it is gone.
func (m *mirror[T]) absent(name types.NamespacedName) {
	var none T
	if o, known := m.get(name); known && o != none {
		m.left(o.GetUID(), false)
	}
}

// shows reports whether the watch has an object that nobody here has deleted.
func (m *mirror[T]) shows(name types.NamespacedName) bool {
	var none T
	o, known := m.get(name)
	return known && o != none
}

// forget drops what is known of a deletion that the watch has shown.
func (m *mirror[T]) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.going, uid)
}

// isNewer compares resourceVersions of one resource, which Kubernetes defines as growing integers. One that is none is new: what
// the API server answered counts.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
