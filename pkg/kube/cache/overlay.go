package cache

import (
	"context"
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

// Object is a pointer to an object of the API.
type Object interface {
	metav1.Object
	runtime.Object
	comparable
}

// Overlay is the state of one resource as a watch has shown it, with the writes and the live reads of this process on
// top. The watch starts with [Overlay.Run]. The objects of an overlay are shared: copy one before you change it.
type Overlay[T Object] struct {
	informer cache.SharedIndexInformer
	// running is true once the watch was started. failing is true from the end of a watch until it starts again.
	running, failing atomic.Bool

	mu sync.Mutex
	// answered has objects that the watch may not have shown yet, by namespace and name.
	answered map[string]T
	// deletions has the objects that were deleted, or will be once their finalizers are done.
	deletions map[types.UID]deletion
}

// deletion is the deletion of an object. If it lingers, readers see the object as being deleted until the watch shows
// it gone.
type deletion struct {
	lingers bool
	at      time.Time
}

// An overlay with maxAnswered answers forgets those that the watch has caught up with. It forgets a deletion that the
// watch has not shown after deletionMemory.
const (
	maxAnswered    = 1024
	deletionMemory = time.Hour
)

// IsRunning reports whether the watch was started and has not ended.
func (m *Overlay[T]) IsRunning() bool { return m.running.Load() }

// WaitForSync waits until the first list is in, or ctx is done.
func (m *Overlay[T]) WaitForSync(ctx context.Context) {
	cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced)
}

// IsUsable reports whether the overlay can answer: it has the first list, and the watch works.
func (m *Overlay[T]) IsUsable() bool {
	return m != nil && m.running.Load() && !m.failing.Load() && m.informer.HasSynced()
}

// GetObject returns the object of that name, nil if it does not exist. known is false when the overlay cannot tell.
func (m *Overlay[T]) GetObject(name types.NamespacedName) (found T, known bool) {
	if !m.IsUsable() {
		return found, false
	}
	// The version first: the object that is read after it is at least as new.
	upTo := m.LastSyncedVersion()
	item, exists, err := m.informer.GetStore().GetByKey(storeKey(name))
	if err != nil {
		return found, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if own, ok := m.answered[name.String()]; ok {
		// The watch may also be past a version of the object that it never showed.
		shown, is := item.(T)
		if IsNewerVersion(own.GetResourceVersion(), upTo) || exists && is && IsNewerVersion(own.GetResourceVersion(), shown.GetResourceVersion()) {
			return m.afterDeletion(own), true
		}
		delete(m.answered, name.String())
	}
	if shown, ok := item.(T); exists && ok {
		return m.afterDeletion(shown), true
	}
	return found, true
}

// storeKey returns the key of an object in the store of an informer.
func storeKey(name types.NamespacedName) string {
	if name.Namespace == "" {
		return name.Name
	}
	return name.String()
}

// LastSyncedVersion returns the resourceVersion up to which the overlay has seen every change.
func (m *Overlay[T]) LastSyncedVersion() string {
	return m.informer.GetStore().LastStoreSyncResourceVersion()
}

// afterDeletion returns the object as it is after the deletions that the overlay knows.
func (m *Overlay[T]) afterDeletion(o T) T {
	gone, ok := m.deletions[o.GetUID()]
	switch {
	case !ok:
		return o
	case !gone.lingers:
		var none T
		return none
	case o.GetDeletionTimestamp() != nil:
		return o
	}
	return WithDeletionTimestamp(o, gone.at)
}

// WithDeletionTimestamp returns a copy of an object with a deletion timestamp.
func WithDeletionTimestamp[T Object](o T, since time.Time) T {
	copied, ok := o.DeepCopyObject().(T)
	if !ok {
		return o
	}
	at := metav1.NewTime(since)
	copied.SetDeletionTimestamp(&at)
	return copied
}

// ByKey lists the objects with a key; known is false when the overlay cannot tell. ReplicaSets and EndpointSlices have keys, see [OwnerKey] and [ServiceKey].
func (m *Overlay[T]) ByKey(key string) (found []T, known bool) { return m.inIndex(byKey, key) }

func (m *Overlay[T]) inIndex(index, value string) (found []T, known bool) {
	if !m.IsUsable() {
		return nil, false
	}
	items, err := m.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil, false
	}
	return objectsIn[T](items), true
}

// ListNamespace lists the objects of a namespace; known is false when the overlay cannot tell.
func (m *Overlay[T]) ListNamespace(namespace string) (found []T, known bool) {
	shown, known := m.inIndex(cache.NamespaceIndex, namespace)
	if !known {
		return nil, false
	}
	names := map[string]bool{}
	for _, o := range shown {
		names[o.GetName()] = true
	}
	m.mu.Lock()
	for _, own := range m.answered {
		if own.GetNamespace() == namespace {
			names[own.GetName()] = true
		}
	}
	m.mu.Unlock()
	var none T
	for name := range names {
		o, known := m.GetObject(types.NamespacedName{Namespace: namespace, Name: name})
		if !known {
			return nil, false
		}
		if o != none {
			found = append(found, o)
		}
	}
	return found, true
}

// ListWatched lists the objects that the watch has shown.
func (m *Overlay[T]) ListWatched() []T {
	if !m.IsUsable() {
		return nil
	}
	return objectsIn[T](m.informer.GetStore().List())
}

// objectsIn returns the items of a store that have the type of the overlay.
func objectsIn[T Object](items []any) (found []T) {
	for _, item := range items {
		if o, ok := item.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// StoreAnswer takes in an object from an answer of the API server.
func (m *Overlay[T]) StoreAnswer(o T) {
	if m == nil || !m.running.Load() {
		return
	}
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}.String()
	upTo := m.LastSyncedVersion()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answered) >= maxAnswered {
		maps.DeleteFunc(m.answered, func(_ string, o T) bool { return !IsNewerVersion(o.GetResourceVersion(), upTo) })
	}
	if own, ok := m.answered[name]; !ok || IsNewerVersion(o.GetResourceVersion(), own.GetResourceVersion()) {
		m.answered[name] = o
	}
}

// MarkDeleted takes in the deletion of an object. If the object lingers, readers see it until the watch shows it gone.
func (m *Overlay[T]) MarkDeleted(uid types.UID, lingers bool) {
	if m == nil || !m.running.Load() {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.deletions) >= maxAnswered {
		maps.DeleteFunc(m.deletions, func(_ types.UID, d deletion) bool { return now.Sub(d.at) > deletionMemory })
	}
	m.deletions[uid] = deletion{lingers: lingers, at: now}
}

// MarkAbsent takes in that the API server has no object of that name. The overlay then marks its own object as deleted.
func (m *Overlay[T]) MarkAbsent(name types.NamespacedName) {
	var none T
	if o, known := m.GetObject(name); known && o != none {
		m.MarkDeleted(o.GetUID(), false)
	}
}

// HasObject reports whether the overlay has an object of that name which this process has not deleted.
func (m *Overlay[T]) HasObject(name types.NamespacedName) bool {
	var none T
	o, known := m.GetObject(name)
	return known && o != none
}

// forgetDeletion drops a deletion that the watch has shown.
func (m *Overlay[T]) forgetDeletion(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.deletions, uid)
}

// IsNewerVersion compares resourceVersions of one resource, which Kubernetes defines as growing integers. If it cannot
// compare them, the first one counts as newer, because it is an answer of the API server.
func IsNewerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
