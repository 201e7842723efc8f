package watcher

import (
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/script"
)

// gatewayAPI is the group in which a route is attached to a Gateway, whose class tells what it supports.
const gatewayAPI = "gateway.networking.k8s.io"

// scripted are the kinds that have a script, in any version, built-in or of users; for each the kinds that the routing by it depends on as
// well: those of what its script makes beside an object or reads, of what an object may lead to in place of Services, and those that tell what
// its gateway supports.
type scripted map[schema.GroupKind][]namedKind

// scriptedBy are those that have a script when the users' ConfigMap has this content.
func (w *Watcher) scriptedBy(users map[string]string) scripted {
	kinds := scripted{}
	if w.Scripts == nil {
		return kinds
	}
	cm := script.ConfigMap{Name: w.ScriptConfigMap.String(), Data: users}
	for _, kind := range w.Scripts.Kinds(cm) {
		kinds[schema.GroupKind(kind)] = nil
	}
	for kind, said := range w.Scripts.Capabilities(cm) {
		var beside []namedKind
		for _, made := range said.Creates {
			beside = append(beside, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(made.APIVersion, made.Kind), made: true})
		}
		for _, of := range said.Backends {
			beside = append(beside, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), backend: true})
		}
		for _, of := range said.Reads {
			beside = append(beside, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), read: true})
		}
		if len(said.Needs) > 0 || kind.Group == gatewayAPI {
			for _, name := range []string{"Gateway", "GatewayClass"} {
				beside = append(beside, namedKind{GroupVersionKind: schema.GroupVersionKind{Group: gatewayAPI, Version: "v1", Kind: name}, supports: true})
			}
		}
		kinds[schema.GroupKind(kind)] = beside
	}
	return kinds
}

// scripts are the kinds that have a script now.
func (w *Watcher) scripts() scripted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scripted
}

// withBeside are kinds, and those that the routing by them depends on.
func (s scripted) withBeside(kinds []namedKind) iter.Seq[namedKind] {
	return func(yield func(namedKind) bool) {
		for _, kind := range kinds {
			if !yield(kind) {
				return
			}
			for _, beside := range s[kind.GroupKind()] {
				if !yield(beside) {
					return
				}
			}
		}
	}
}

// gatewayFacts are the class of a Gateway, the kinds of routes that its listeners support, and what a class says that it supports.
func gatewayFacts(u *unstructured.Unstructured) facts {
	class, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "gatewayClassName")
	features, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "supportedFeatures")
	var kinds []any
	listeners, _, _ := unstructured.NestedSlice(u.Object, "status", "listeners")
	for _, l := range listeners {
		if of, ok := l.(map[string]any); ok {
			kinds = append(kinds, of["name"], of["supportedKinds"])
		}
	}
	return facts{now: []any{class, features, kinds}}
}
