package watcher

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
)

// facts are the properties of an object that a plan depends on, by the urgency of their changes.
type facts struct {
	// now wakes at once.
	now any
	// calls wake at once when one is added. An executor answers each with a write, such as after a command or an edit
	// to undo. The write removes the call and wakes no release.
	calls []string
	// soon wakes within a moment. It has properties that are only shown, and those that executors write.
	soon any
	keptFacts
}

// keptFacts are the facts that are kept as they are, and not as digests.
type keptFacts struct {
	// claim is the Rollout whose mark a workload carries, "" for none.
	claim string
	// parents are the gateway objects that own a child.
	parents []object
	// listed are the owners, by kind, of the releases on a cluster-scoped gateway object, or of the release that a
	// child was created for. "" is the kind of Rollouts.
	listed map[string][]types.NamespacedName
	// names are the objects that the object names and that a script reads.
	names []object
	// services are the Services that a policy is attached to.
	services []string
	// kinds are the cluster-scoped kind, or the kind of policies, of a definition.
	kinds []schema.GroupVersionKind
	// scripted is set for the users' ConfigMap: the kinds that have a script with it.
	scripted scriptedKinds
	// rollout is set for Rollouts: their dependencies, and the times at which they asked for a run.
	rollout *dependencies
}

// fact is all that the watcher keeps of an object: its identity, and digests of its facts.
type fact struct {
	name      types.NamespacedName
	uid       types.UID
	version   string
	now, soon factDigest
	calls     []string
	// service is the Service of an EndpointSlice.
	service string
	// madeByExecutor is true if an executor created the object for a release.
	madeByExecutor bool
	keptFacts
}

// factDigest is a truncated SHA-256 hash.
type factDigest [12]byte

// GetObjectMeta implements metav1.ObjectMetaAccessor, because caches ask for the name and the version. It builds the
// metadata on each call to save memory: there are many facts.
func (f *fact) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: f.name.Namespace, Name: f.name.Name, UID: f.uid, ResourceVersion: f.version}
}

// urgency says how soon a change wakes a release.
type urgency int

const (
	never urgency = iota
	soon
	atOnce
)

// urgencySince returns the urgency of the change from an older fact to this one. The older fact is nil for a new
// object.
func (f *fact) urgencySince(old *fact) urgency {
	switch {
	case old == nil && f.madeByExecutor:
		return soon // the executor that created it knows
	case old == nil || old.uid != f.uid || old.now != f.now:
		return atOnce
	case slices.ContainsFunc(f.calls, func(call string) bool { return !slices.Contains(old.calls, call) }):
		return atOnce
	case f.rollout != nil && old.rollout != nil && f.rollout.analyses.hasReported(old.rollout.analyses):
		return atOnce
	case old.soon != f.soon:
		return soon
	}
	return never
}

// factTransform returns the transformation that a source applies to each object; project selects its facts.
func factTransform[T metav1.Object](project func(T) facts) cache.TransformFunc {
	return func(obj any) (any, error) {
		o, ok := obj.(T)
		if !ok {
			return obj, nil
		}
		labels := o.GetLabels()
		service, endpoints := labels[serviceNameLabel]
		f := &fact{
			name: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, uid: o.GetUID(), version: o.GetResourceVersion(),
			service: service, madeByExecutor: labels[api.LabelRolloutUID] != "" && !endpoints,
		}
		seen := project(o)
		f.keptFacts = seen.keptFacts
		f.now, f.calls, f.soon = digestParts(o.GetDeletionTimestamp() != nil, seen.now), seen.calls, digestParts(seen.soon)
		return f, nil
	}
}

func digestParts(parts ...any) factDigest {
	body, err := json.Marshal(parts)
	if err != nil {
		// Content from the API server can always be encoded; anything else counts as changed.
		body = []byte(fmt.Sprint(parts...))
	}
	return digestOf(body)
}

func digestOf(body []byte) factDigest {
	whole := sha256.Sum256(body)
	return factDigest(whole[:len(factDigest{})])
}
