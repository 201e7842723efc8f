package watcher

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/traffic"
)

// This file is about kinds that are watched although no Rollout names them. Kinds that belong to no namespace are, if they have a script: what a Rollout that
// was removed by force has left on such an object is seen nowhere else, once its namespace is gone as well. Kinds of policies are, if any Rollout is routed:
// a release copies the policies of its Services.

// definitionChanged notes kinds of no namespace, and kinds of policies, as they are defined.
func (w *Watcher) definitionChanged(f *fact, gone bool, _ urgency) {
	w.mu.Lock()
	for _, kind := range f.kinds {
		if w.defined[kind] = true; gone {
			delete(w.defined, kind)
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

// unnamed are the kinds that are watched beside those that Rollouts name.
func (w *Watcher) unnamed(named map[namedKind]bool) map[namedKind]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	routed := false
	for kind := range named {
		routed = routed || !kind.workload && kind.Group != api.GroupSluice
	}
	unnamed := map[namedKind]bool{}
	for kind := range w.defined {
		if isPolicy(kind) {
			if routed {
				unnamed[namedKind{GroupVersionKind: kind, policy: true}] = true
			}
		} else if _, is := w.scripted[kind.GroupKind()]; is {
			unnamed[namedKind{GroupVersionKind: kind}] = true
		}
	}
	return unnamed
}

func isPolicy(kind schema.GroupVersionKind) bool {
	return slices.Contains(traffic.PolicyKinds(), kind.GroupKind())
}

// defines is the kind that a definition is of, in a version that is served, if that belongs to no namespace or is one of policies.
func defines(u *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		version, _ := m["name"].(string)
		of := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
		if m["served"] == true && (scope == "Cluster" || isPolicy(of)) {
			return []schema.GroupVersionKind{of}
		}
	}
	return nil
}

// policyFacts are the content of a policy, and the Services that it is attached to. A copy that an executor made has the facts of an object that a route owns.
func policyFacts(u *unstructured.Unstructured) facts {
	if u.GetLabels()[api.LabelRolloutUID] != "" {
		return routeFacts(u)
	}
	return facts{now: traffic.Digest(u), kept: kept{services: traffic.PolicyTargets(u)}}
}
