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

// facts are what a plan sees of an object, by how a change of them wakes.
type facts struct {
	// now wakes at once.
	now any
	// calls wake at once when one is added. An executor answers each by a write, such as a command or an edit to revert; the answer removes it and wakes
	// no executor.
	calls []string
	// soon wakes within a moment: fields that are only shown, and fields that executors themselves write.
	soon any
	keptFacts
}

// keptFacts are the facts that are kept as they are.
type keptFacts struct {
	// claim is the Rollout whose mark a workload carries, "" for none.
	claim string
	// parents are the gateway objects that own an object which was created for them.
	parents []object
	// listed are the owners of the releases on a cluster-scoped gateway object, or of the release that created an object for one, by kind; the kind of
	// Rollouts is "".
	listed map[string][]types.NamespacedName
	// names are the objects that it names and a script reads.
	names []object
	// services are those that a policy is attached to.
	services []string
	// kinds are the cluster-scoped kinds, or the kinds of policies, of a definition.
	kinds []schema.GroupVersionKind
	// scripted is set for the users' ConfigMap: the kinds that have a script with it.
	scripted scriptedKinds
	// rollout is set for Rollouts: what they depend on, and when they asked to be looked at.
	rollout *dependencies
}

// fact is all that is kept of an object: who it is, and digests of its facts.
type fact struct {
	name      types.NamespacedName
	uid       types.UID
	version   string
	now, soon factDigest
	calls     []string
	// service is the one that an EndpointSlice belongs to.
	service string
	// madeByExecutor: the object was made by an executor for a release.
	madeByExecutor bool
	keptFacts
}

// factDigest is a digest.
type factDigest [12]byte

// GetObjectMeta implements metav1.ObjectMetaAccessor: caches ask for the name and the version. There are so many facts that it is
// not kept.
func (f *fact) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: f.name.Namespace, Name: f.name.Name, UID: f.uid, ResourceVersion: f.version}
}

// urgency is how soon a change wakes.
type urgency int

const (
	never urgency = iota
	soon
	atOnce
)

// urgencySince tells how soon the change from an older fact to this one wakes. The older one is nil for an object that is new.
func (f *fact) urgencySince(old *fact) urgency {
	switch {
	case old == nil && f.madeByExecutor:
		return soon // its creator knows
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

// factTransform is what a source keeps of each object; project picks its facts.
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
		// Content of the API server always encodes; anything else counts as changed.
		body = []byte(fmt.Sprint(parts...))
	}
	return digestOf(body)
}

func digestOf(body []byte) factDigest {
	whole := sha256.Sum256(body)
	return factDigest(whole[:len(factDigest{})])
}
