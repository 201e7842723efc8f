package watcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/traffic"
)

// This file is about kinds that the watcher watches although no Rollout names them. It watches cluster-scoped kinds
// that have a script: a forcibly removed Rollout may have left marks on such an object, and its namespace may be gone
// as well. It watches kinds of policies if any Rollout routes traffic, because a release copies the policies of its
// Services.

// definitionChanged notes the cluster-scoped kinds and the kinds of policies in a definition.
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

// scriptsChanged notes which kinds have a script, and wakes each Rollout and TrafficRouting whose script may have
// changed.
func (w *Watcher) scriptsChanged(f *fact, gone bool, _ urgency) {
	scripted := f.scripted
	if gone {
		scripted = w.scriptedKindsWith(nil)
	}
	w.mu.Lock()
	w.scripted = scripted
	w.mu.Unlock()
	w.requestFindKinds()
	w.hintRolloutsMatching(func(d *dependencies) bool { return d.scripts })
	w.hintRoutingsMatching(anyRollout)
}

// scriptFacts returns the content of the ConfigMap, and the kinds that have a script with it.
func (w *Watcher) scriptFacts(c *corev1.ConfigMap) facts {
	f := contentFacts(c)
	f.scripted = w.scriptedKindsWith(c.Data)
	return f
}

// unnamedKinds returns the kinds that the watcher watches although no Rollout names them.
func (w *Watcher) unnamedKinds(named map[namedKind]bool) map[namedKind]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	routed := false
	for kind := range named {
		routed = routed || !kind.workload && kind.Group != api.GroupSluice
	}
	unnamed := map[namedKind]bool{}
	for kind := range w.defined {
		if traffic.IsPolicyKind(kind.GroupKind()) {
			if routed {
				unnamed[namedKind{GroupVersionKind: kind, policy: true}] = true
			}
		} else if _, is := w.scripted[kind.GroupKind()]; is {
			unnamed[namedKind{GroupVersionKind: kind}] = true
		}
	}
	return unnamed
}

// definedKinds returns the kind of a definition, in its first served version, if the kind is cluster-scoped or a kind
// of policies.
func definedKinds(u *unstructured.Unstructured) []schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		version, _ := m["name"].(string)
		of := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
		if m["served"] == true && (scope == "Cluster" || traffic.IsPolicyKind(of.GroupKind())) {
			return []schema.GroupVersionKind{of}
		}
	}
	return nil
}

// policyFacts returns the content of a policy, and the Services that it is attached to. A copy that an executor created
// has the facts of an object that a route owns.
func policyFacts(u *unstructured.Unstructured) facts {
	if u.GetLabels()[api.LabelRolloutUID] != "" {
		return routeFacts(u)
	}
	return facts{now: traffic.ContentDigest(u), keptFacts: keptFacts{services: traffic.PolicyTargets(u)}}
}
