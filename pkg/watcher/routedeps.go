package watcher

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// gatewayAPI is the group of routes that are attached to a Gateway, whose class says what it supports.
const gatewayAPI = "gateway.networking.k8s.io"

// scriptedKinds are the kinds that have a script, in any version, built-in or of users. For each it has the other kinds
// that its routing depends on. Those are the kinds that its script creates or reads, the kinds that may stand for
// Services, and the kinds that say what its gateway supports.
type scriptedKinds map[schema.GroupKind][]namedKind

// scriptedKindsWith returns the kinds that have a script when the users' ConfigMap has this content.
func (w *Watcher) scriptedKindsWith(users map[string]string) scriptedKinds {
	kinds := scriptedKinds{}
	if w.Scripts == nil {
		return kinds
	}
	cm := script.ConfigMap{Name: w.ScriptConfigMap.String(), Data: users}
	for _, kind := range w.Scripts.ListKinds(cm) {
		kinds[schema.GroupKind(kind)] = nil
	}
	for kind, said := range w.Scripts.CapabilitiesByKind(cm) {
		var beside []namedKind
		for _, made := range said.Creates {
			beside = append(beside, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(made.APIVersion, made.Kind), child: true})
		}
		for _, of := range said.Backends {
			beside = append(beside, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), backend: true})
		}
		for _, of := range said.Reads {
			beside = append(beside, namedKind{read: of})
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

// currentScripts returns the kinds that have a script now.
func (w *Watcher) currentScripts() scriptedKinds {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scripted
}

// withRelated yields kinds, and the kinds that routing with them depends on.
func (s scriptedKinds) withRelated(kinds []namedKind) iter.Seq[namedKind] {
	return func(yield func(namedKind) bool) {
		for _, kind := range kinds {
			if !yield(kind) {
				return
			}
			for _, beside := range s[kind.GroupKind()] {
				beside = beside.of(kind)
				if beside.read.Field != "" && beside.GroupVersionKind == kind.GroupVersionKind { // it is watched as a kind of gateway objects already
					continue
				}
				if !yield(beside) {
					return
				}
			}
		}
	}
}

// names reports whether objects of the kind may name others that scripts read.
func (k namedKind) names() bool {
	return k == namedKind{GroupVersionKind: k.GroupVersionKind, read: k.read} && k.Group != api.GroupSluice
}

// of returns a related kind for a kind of gateway objects. A script may read objects in the version of the gateway
// object.
func (k namedKind) of(gateway namedKind) namedKind {
	if k.read.Field != "" {
		k.read = k.read.For(gateway.GroupVersion().String())
		k.GroupVersionKind = schema.FromAPIVersionAndKind(k.read.APIVersion, k.read.Kind)
	}
	return k
}

// reads returns all ways in which gateway objects name others that their scripts read, sorted.
func (s scriptedKinds) reads() []script.Reads {
	var all []script.Reads
	for _, beside := range s {
		for _, kind := range beside {
			if kind.read.Field != "" && !slices.Contains(all, kind.read) {
				all = append(all, kind.read)
			}
		}
	}
	slices.SortFunc(all, func(a, b script.Reads) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// readBy returns the objects that an object names in any of these ways. If the APIVersion is absent, it is the object's
// own.
func readBy(reads []script.Reads, u *unstructured.Unstructured) (named []object) {
	for _, of := range reads {
		kind := schema.FromAPIVersionAndKind(of.For(u.GetAPIVersion()).APIVersion, of.Kind)
		for _, name := range of.Named(u.Object["spec"], u.GetNamespace()) {
			named = append(named, object{kind.Group, kind.Kind, types.NamespacedName(name)})
		}
	}
	return named
}

// naming adds the objects that an object names to its facts.
func naming(reads []script.Reads, project func(*unstructured.Unstructured) facts) func(*unstructured.Unstructured) facts {
	return func(u *unstructured.Unstructured) facts {
		f := project(u)
		f.names = readBy(reads, u)
		return f
	}
}

// gatewayFacts returns the class of a Gateway, the kinds of routes that its listeners support, and the features of a
// class.
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
