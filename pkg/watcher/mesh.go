package watcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file is about kinds that belong to no namespace. They are watched although no Rollout names them, if they have a script: what one that
// was removed by force has left on such an object is seen nowhere else, once its namespace is gone as well.

// definitionChanged notes kinds of no namespace as they are defined.
func (w *Watcher) definitionChanged(f *fact, gone bool, _ urgency) {
	w.mu.Lock()
	for _, kind := range f.kinds {
		if w.meshes[kind] = true; gone {
			delete(w.meshes, kind)
		}
	}
	w.mu.Unlock()
	w.kindsChanged()
}

// scriptsChanged notes which kinds have a script, and wakes who may be routed by another one.
func (w *Watcher) scriptsChanged(f *fact, gone bool, _ urgency) {
	scripted := f.scripted
	if gone {
		scripted = w.scriptedBy(nil)
	}
	w.mu.Lock()
	w.scripted = scripted
	w.mu.Unlock()
	w.look()
	w.hintMatching(func(d *dependencies) bool { return d.scripts })
	w.routeMatching(everything)
}

// scriptFacts are the content, and the kinds that have a script with it.
func (w *Watcher) scriptFacts(c *corev1.ConfigMap) facts {
	f := contentFacts(c)
	f.scripted = w.scriptedBy(c.Data)
	return f
}

// shared are the kinds of no namespace that have a script.
func (w *Watcher) shared() map[namedKind]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	shared := map[namedKind]bool{}
	for kind := range w.meshes {
		if _, is := w.scripted[kind.GroupKind()]; is {
			shared[namedKind{GroupVersionKind: kind}] = true
		}
	}
	return shared
}

// defines is the kind that a definition is of, in a version that is served, if that belongs to no namespace.
func defines(u *unstructured.Unstructured) []schema.GroupVersionKind {
	if scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope"); scope != "Cluster" {
		return nil
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			if version, ok := m["name"].(string); ok {
				return []schema.GroupVersionKind{{Group: group, Version: version, Kind: kind}}
			}
		}
	}
	return nil
}
