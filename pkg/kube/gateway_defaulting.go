package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// specShapes knows, by resource, for which specs the API server keeps every field and adds none. Defaulting and pruning
// depend on the fields of the objects in a spec, and not on their values. So the API server keeps a spec if it kept
// specs with objects of all the same shapes. A webhook that looks at values can break this rule. After one wrong
// prediction the executor never relies on the shapes of that resource again.
type specShapes struct {
	mu         sync.Mutex
	kept       map[schema.GroupVersionResource]map[string]bool
	unreliable map[schema.GroupVersionResource]bool
}

// maxShapes is the number of shapes of a resource at which specShapes forgets them all. That costs dry runs.
const maxShapes = 10_000

func newSpecShapes() *specShapes {
	return &specShapes{kept: map[schema.GroupVersionResource]map[string]bool{}, unreliable: map[schema.GroupVersionResource]bool{}}
}

// keepsSpec reports whether the API server is known to keep the object's spec unchanged.
func (s *specShapes) keepsSpec(of schema.GroupVersionResource, o *unstructured.Unstructured) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreliable[of] {
		return false
	}
	for shape := range shapesOf(o) {
		if !s.kept[of][shape] {
			return false
		}
	}
	return true
}

// learnSpec takes in an object that the API server stores, or would store, unchanged.
func (s *specShapes) learnSpec(of schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[of] == nil || len(s.kept[of]) > maxShapes {
		s.kept[of] = map[string]bool{}
	}
	maps.Copy(s.kept[of], shapesOf(o))
}

// markUnreliable makes the executor do a dry run before every further write of the resource.
func (s *specShapes) markUnreliable(of schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreliable[of] = true
	delete(s.kept, of)
}

// shapesOf returns the shapes of all objects inside a spec: their paths, and the names and types of their fields.
func shapesOf(o *unstructured.Unstructured) map[string]bool {
	found := map[string]bool{}
	addShapes(found, "", o.Object["spec"])
	return found
}

func addShapes(found map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		var shape strings.Builder
		shape.WriteString(path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&shape, " %q:%s", key, typeOf(v[key]))
			addShapes(found, fmt.Sprintf("%s/%q", path, key), v[key])
		}
		found[shape.String()] = true
	case []any:
		for _, e := range v {
			found[path+"[] "+typeOf(e)] = true
			addShapes(found, path+"[]", e)
		}
	}
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "object"
	case []any:
		return "list"
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}
