package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// key identifies an object in the store, regardless of its version.
type key struct {
	schema.GroupResource
	namespace, name string
}

// store keeps objects as an API server does: with versions, generations, finalizers and owners. It has no admission, defaulting or pruning.
type store struct {
	mu      sync.Mutex
	objects map[key]*unstructured.Unstructured
	// origins are the objects before the simulation changed them; objects that it created have none.
	origins map[key]*unstructured.Unstructured
	// gone are deleted objects. The server must not read them from the cluster again.
	gone    map[key]bool
	dead    map[types.UID]bool                 // the UIDs of deleted objects
	kinds   map[schema.GroupVersionKind]string // the served resources, by kind
	version int64
	now     func() time.Time
	// whole: the store has every object of the cluster.
	whole bool
}

func newStore(now func() time.Time) *store {
	return &store{
		objects: map[key]*unstructured.Unstructured{}, origins: map[key]*unstructured.Unstructured{}, gone: map[key]bool{}, dead: map[types.UID]bool{},
		kinds: map[schema.GroupVersionKind]string{}, now: now,
	}
}

// serveKind registers a kind and returns its resource.
func (s *store) serveKind(kind schema.GroupVersionKind) schema.GroupResource {
	if s.kinds[kind] == "" {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		s.kinds[kind] = plural.Resource
	}
	return schema.GroupResource{Group: kind.Group, Resource: s.kinds[kind]}
}

func (s *store) keyOf(o *unstructured.Unstructured) key {
	return key{s.serveKind(o.GroupVersionKind()), o.GetNamespace(), o.GetName()}
}

// loadObject stores an object that existed before the simulation.
func (s *store) loadObject(k key, o *unstructured.Unstructured) {
	if s.objects[k] != nil || s.gone[k] {
		return
	}
	o = o.DeepCopy()
	if o.GetUID() == "" {
		s.setCreationFields(o)
	}
	o.SetManagedFields(nil)
	s.objects[k], s.origins[k] = o, o.DeepCopy()
}

// setCreationFields sets the fields that the API server sets on a new object.
func (s *store) setCreationFields(o *unstructured.Unstructured) {
	s.version++
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)))
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(s.now()))
}

func (s *store) createObject(k key, o *unstructured.Unstructured) *unstructured.Unstructured {
	s.setCreationFields(o)
	s.objects[k] = o
	delete(s.gone, k)
	return o
}

// updateObject replaces an object. The version changes if the object differs, and the generation changes if the spec differs.
func (s *store) updateObject(k key, next *unstructured.Unstructured) *unstructured.Unstructured {
	was := s.objects[k]
	next.SetUID(was.GetUID())
	next.SetCreationTimestamp(was.GetCreationTimestamp())
	next.SetGeneration(was.GetGeneration())
	next.SetResourceVersion(was.GetResourceVersion())
	next.SetManagedFields(nil)
	if equality.Semantic.DeepEqual(was.Object, next.Object) {
		return was
	}
	if !equality.Semantic.DeepEqual(was.Object["spec"], next.Object["spec"]) {
		next.SetGeneration(was.GetGeneration() + 1)
	}
	s.version++
	next.SetResourceVersion(strconv.FormatInt(s.versionAfter(was), 10))
	s.objects[k] = next
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		s.removeObject(k)
	}
	return next
}

// versionAfter returns a version after the version of an object, which may come from a cluster.
func (s *store) versionAfter(o *unstructured.Unstructured) int64 {
	if n, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64); err == nil && n >= s.version {
		s.version = n + 1
	}
	return s.version
}

func (s *store) removeObject(k key) {
	s.dead[s.objects[k].GetUID()] = true
	delete(s.objects, k)
	s.gone[k] = true
}

// listKeys returns the keys in the order of names.
func (s *store) listKeys(of schema.GroupResource, namespace string) []key {
	var found []key
	for k := range s.objects {
		if k.GroupResource == of && (namespace == "" || k.namespace == namespace) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, compareKeys)
	return found
}

func (s *store) allKeys() []key { return slices.SortedFunc(maps.Keys(s.objects), compareKeys) }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// ownedBy returns the objects of a resource that owner controls.
func (s *store) ownedBy(of schema.GroupResource, owner *unstructured.Unstructured) []key {
	return slices.DeleteFunc(s.listKeys(of, owner.GetNamespace()), func(k key) bool { return !metav1.IsControlledBy(s.objects[k], owner) })
}
