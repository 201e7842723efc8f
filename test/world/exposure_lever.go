package world

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file judges the writes of executors to workloads that bring in their new pods themselves. The writes of their
// controllers follow from these, except for pods that came before the release.
//
// stage is a step that a release has come to.

// stage is a step that a release has come to.
type stage struct {
	rollout.Step
	last bool
}

// asksAll reports whether the step is about all pods and all requests.
func (s stage) asksAll() bool {
	switch {
	case s.Replicas.Percent && s.Replicas.Value < 100:
		return false
	case s.Weight != nil:
		return *s.Weight == 100
	case len(s.Matches) > 0 || s.Mirror != nil:
		return false
	}
	return s.Replicas.Percent || s.last
}

// accepts reports whether the owner lets a step replace all pods although it asks for less.
func (c *committed) accepts(s stage) bool {
	return slices.ContainsFunc(c.spec.Steps, func(of rollout.Step) bool { return of.AllowFull && of.Replicas == s.Replicas })
}

// most returns the number of new pods of the furthest step committed in this release. A share of less than all leaves
// at least one old pod.
func (c *committed) most(replicas int32) int32 {
	most := int32(0)
	for _, s := range c.furthest {
		n := s.Replicas.Of(replicas)
		share := s.Replicas.Percent && s.Replicas.Value < 100 && replicas > 1
		if c.spec.Style == rollout.StylePartition && n >= replicas && (share || !s.asksAll() && !c.accepts(s)) {
			n = replicas - 1
		}
		most = max(most, n)
	}
	return most
}

// exposes reports whether a release is in a step that exposes a new version. A rollback in batches exposes none.
func (c *committed) exposes() bool {
	m := c.last.Sluice
	return c.known && len(c.furthest) > 0 && (c.state.InStep() || c.state == rollout.StateInitializing) && m != nil && m.RollbackReplicas == 0
}

// takeLever judges every write to a workload. A step that the write leaves open to the controller counts as passed. No
// user's write lets a held workload go further. Before a release is committed, no executor's write does.
func (e *exposure) takeLever(w Write) {
	for name, c := range e.rollouts {
		ref := c.spec.Workload
		if w.Subresource != "" || w.Name != ref.Name || w.Resource != strings.ToLower(ref.Kind)+"s" {
			continue
		}
		l := leverOf(c.spec, w.Object)
		e.replicas[w.Name] = max(e.replicas[w.Name], l.replicas)
		before := c.lever
		if l.at = w.Version; l.at < before.at {
			continue // this write waited until the commit was known, and a user has written since
		}
		c.lever = l
		user := w.User
		if n := e.unanswered[w.Resource+"/"+w.Name]; n > 0 && l.generation <= before.generation+n {
			user = executorUser // this write has not changed the spec, because each change raises the generation
		}
		if further := before.held && l.of == before.of && l.replicas == before.replicas && l.pods > before.pods; further && e.judges(name, before) {
			if user != executorUser || e.rests(c) && !c.mayLetGo(w.Object) {
				e.breach(w, "%s let the held %s/%s go from %d new pods to %d", user, w.Resource, w.Name, before.pods, l.pods)
			}
		}
		goesBack := c.free != nil && reflect.DeepEqual(c.free, template(w.Object)) // its controller may not have counted yet how many pods run it
		if !l.held {
			c.free = template(w.Object)
		}
		if user != executorUser || goesBack || !c.exposes() || c.last.Sluice.WorkloadUID != w.Object.GetUID() {
			continue // the release was about a deleted workload
		}
		most := max(c.most(l.replicas), l.updated)
		if before.held && l.of == before.of && l.replicas == before.replicas { // a user has scaled in proportion, which is allowed
			most = max(most, before.pods)
		}
		if l.pods > most {
			e.breach(w, "%s/%s was let go as far as %d new pods when Rollout %s had come to a step of %d", w.Resource, w.Name, l.pods, name, most)
		}
	}
	if w.Subresource == "" {
		delete(e.unanswered, w.Resource+"/"+w.Name)
	}
}

// judges reports whether a held workload is that Rollout's to let go. It is that of the Rollout that its mark names.
func (e *exposure) judges(name string, held lever) bool {
	return held.holder == name || e.rollouts[held.holder] == nil
}

// mayLetGo reports whether a held workload may be released without a release: its owner wants it, or its template is
// not new.
func (c *committed) mayLetGo(u *unstructured.Unstructured) bool {
	return c.spec.Disabled || c.deleting || reflect.DeepEqual(c.free, template(u))
}

func template(u *unstructured.Unstructured) any {
	it, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	return it
}

const daemonController = "system:serviceaccount:kube-system:daemon-set-controller"

// takeNodes records the number of pods that a DaemonSet wants. Its controller writes it to the status when nodes join.
func (e *exposure) takeNodes(w Write) {
	e.replicas[w.Name] = max(e.replicas[w.Name], number(w.Object, 0, "status", "desiredNumberScheduled"))
}

// takePod counts the pods of a DaemonSet that are deleted to bring in new ones.
func (e *exposure) takePod(w Write) {
	for name, c := range e.rollouts {
		ref := c.spec.Workload
		id, of := strings.CutPrefix(w.Name, ref.Name+"-")
		if ref.Kind != "DaemonSet" || !strings.HasPrefix(ref.APIVersion, "apps/") || !of || strings.Contains(id, "-") {
			continue
		}
		if w.User == executorUser && e.rests(c) {
			e.breach(w, "pod %s of DaemonSet %s was deleted when Rollout %s had come to no step", w.Name, ref.Name, name)
		}
		if !c.exposes() {
			continue
		}
		switch w.User {
		case executorUser:
			c.deleted[w.Name] = true
		case daemonController:
			c.misfits++
		default:
			continue
		}
		if most := c.most(e.replicas[ref.Name]) + c.misfits; int32(len(c.deleted)) > most {
			e.breach(w, "%d pods of DaemonSet %s were deleted when Rollout %s had come to a step of %d", len(c.deleted), ref.Name, name, most)
		}
	}
}

// takeSet judges the ReplicaSet of a version that is neither stable nor agreed to. Only an approved step may give it
// pods.
func (e *exposure) takeSet(w Write) {
	replicas, _ := whole(w.Object.Object, "spec", "replicas")
	for name, c := range e.rollouts {
		hash := w.Object.GetLabels()[api.LabelPodTemplateHash]
		if w.User != executorUser || !c.exposes() || hash == c.last.Sluice.StableRevision || c.agreed[hash] {
			continue
		}
		for _, owner := range w.Object.GetOwnerReferences() {
			if most := c.most(e.replicas[owner.Name]); owner.Name == c.spec.Workload.Name && int32(replicas) > most {
				e.breach(w, "replicasets/%s got %d pods when Rollout %s had come to a step of %d", w.Name, replicas, name, most)
			}
		}
	}
}

// lever says how many pods of its new version a workload lets its controller run. Some may run it already. A held
// workload has the mark of a release, which names its holder.
type lever struct {
	replicas, updated, pods int32
	held                    bool
	holder                  string
	of                      types.UID
	at, generation          int64
}

func leverOf(spec rollout.Spec, u *unstructured.Unstructured) lever {
	l := lever{replicas: number(u, 1, "spec", "replicas"), updated: number(u, 0, "status", "updatedReplicas"), of: u.GetUID()}
	l.generation, _ = whole(u.Object, "metadata", "generation")
	if spec.Workload.Kind == "DaemonSet" {
		l.replicas, l.updated = number(u, 0, "status", "desiredNumberScheduled"), number(u, 0, "status", "updatedNumberScheduled")
	}
	told := l.replicas
	if own, widened := amount(u.GetAnnotations()[api.AnnotationOriginalPrefix+"replicas"]); widened && spec.Workload.Kind != "Deployment" {
		l.replicas = own.Value
	}
	mark, marked := u.GetAnnotations()[api.AnnotationInProgressing]
	l.held, l.holder = marked, holderOf(mark)
	switch {
	case spec.Workload.Kind != "Deployment":
		l.pods = told - kept(u, told) // an owner may keep pods at the old version, too
	case marked:
		l.pods = rolls(spec.Style, u, told)
	default:
		l.pods = told
	}
	return l
}

// holderOf returns the Rollout that the mark of a held workload names, "" if it names none.
func holderOf(mark string) string {
	var of struct{ RolloutName string }
	_ = json.Unmarshal([]byte(mark), &of)
	return of.RolloutName
}

// rolls returns how many pods of its new version a held Deployment may create. A paused one creates only surge pods, in
// proportion.
func rolls(style rollout.Style, u *unstructured.Unstructured, replicas int32) int32 {
	_, parked := u.GetAnnotations()[api.AnnotationOriginalPrefix+"maxSurge"]
	strategy, _, _ := unstructured.NestedMap(u.Object, "spec", "strategy", "rollingUpdate")
	surge, _ := amount(strategy["maxSurge"])
	gone, _ := amount(strategy["maxUnavailable"])
	switch free := !paused(u); {
	case free && (!parked || strategy == nil):
		return replicas
	case free && gone.Percent: // rounded down, unlike a step
		return gone.Value*replicas/100 + pods(surge, replicas)
	case free:
		return gone.Value + pods(surge, replicas)
	case style == rollout.StyleBlueGreen && parked:
		return pods(surge, replicas)
	}
	return 0
}

// kept returns how many pods the controller of a kind other than Deployment leaves unchanged.
func kept(u *unstructured.Unstructured, replicas int32) int32 {
	strategy, _, _ := unstructured.NestedMap(u.Object, "spec", "updateStrategy")
	if strategy["type"] == "OnDelete" {
		return replicas
	}
	partition := strategy["partition"]
	if rolling, _ := strategy["rollingUpdate"].(map[string]any); partition == nil {
		partition = rolling["partition"]
	}
	n, _ := amount(partition)
	return min(replicas, pods(n, replicas))
}

// pods returns an amount of a number of pods, rounded up. It may be more than all.
func pods(a rollout.Amount, replicas int32) int32 {
	if a.Percent {
		return (a.Value*replicas + 99) / 100
	}
	return a.Value
}

// amount reads a number or a percentage.
func amount(value any) (a rollout.Amount, ok bool) {
	switch v := value.(type) {
	case int64:
		return rollout.Amount{Value: int32(v)}, true
	case float64:
		return rollout.Amount{Value: int32(v)}, true
	case string:
		a, err := rollout.ParseAmount(v)
		return a, err == nil
	}
	return a, false
}

func number(u *unstructured.Unstructured, standard int32, fields ...string) int32 {
	if n, ok := whole(u.Object, fields...); ok {
		return int32(n)
	}
	return standard
}
