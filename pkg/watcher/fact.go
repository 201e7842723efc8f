package watcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

// facts are what a plan sees of an object, by how a change of them wakes.
type facts struct {
	// now wakes at once.
	now any
	// calls wake at once when one is added. Each is something that an executor answers by a write, such as a command or an edit to
	// undo; the answer takes it away and wakes nobody.
	calls []string
	// soon wakes within a moment: what is only shown, and what executors themselves write.
	soon any
}

// fact is all that is kept of an object: who it is, and digests of its facts.
type fact struct {
	metav1.ObjectMeta
	now, soon string
	calls     []string
	// ours: the object was made by an executor for a release.
	ours bool
	// claim is the Rollout whose mark a workload carries, "" for none.
	claim string
	// rollout is set for Rollouts: what they depend on, and when they asked to be looked at.
	rollout *dependencies
}

// urgency is how soon a change wakes.
type urgency int

const (
	never urgency = iota
	soon
	atOnce
)

// since tells how soon the change from an older fact to this one wakes. The older one is nil for an object that is new.
func (f *fact) since(old *fact) urgency {
	switch {
	case old == nil && f.ours:
		return soon // who made it knows
	case old == nil || old.UID != f.UID || old.now != f.now:
		return atOnce
	case slices.ContainsFunc(f.calls, func(call string) bool { return !slices.Contains(old.calls, call) }):
		return atOnce
	case old.soon != f.soon:
		return soon
	}
	return never
}

// projection picks the facts of an object of some kind.
type projection func(*unstructured.Unstructured) facts

// trim is what a source keeps of each object.
func trim(project projection) func(any) (any, error) {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		labels := u.GetLabels()
		service, endpoints := labels[serviceNameLabel]
		f := &fact{ours: labels[api.LabelRolloutUID] != "" && !endpoints, ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		}}
		if endpoints {
			f.Labels = map[string]string{serviceNameLabel: service}
		}
		if u.GetKind() == api.KindRollout {
			f.rollout = dependenciesOf(u)
		}
		if u.GetKind() == deploymentKind.Kind {
			f.claim = u.GetAnnotations()[api.AnnotationRollout]
		}
		seen := project(u)
		f.now, f.calls, f.soon = digest(u.GetDeletionTimestamp() != nil, seen.now), seen.calls, digest(seen.soon)
		return f, nil
	}
}

func digest(parts ...any) string {
	body, err := json.Marshal(parts)
	if err != nil {
		// Content of the API server always encodes; anything else counts as changed.
		body = []byte(fmt.Sprint(parts...))
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:12])
}
