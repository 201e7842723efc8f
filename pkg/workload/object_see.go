package workload

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// See tells what a release of the Rollout of that name needs to know of the workload; AdoptedBy is as for the function See. Unlabelled it
// leaves out, for that is a matter of the release.
func (o Object) See(rolloutName string) rollout.Workload {
	kind, template := o.kind(), o.template()
	w := seeMarks(o.Live, rolloutName, kind.Type)
	w.Lever, w.Shares, w.Ordered = kind.Lever, kind.shares, o.ordered()
	w.Revision, w.Images = Revision(template), images(template.Spec)
	w.Replicas = o.replicas()
	w.Updated, w.Available, w.Total = o.count(kind.counts.updated), o.count(kind.counts.available), o.count(kind.counts.total)
	w.MaxUnavailable = o.maxUnavailable(w.Replicas)
	w.Sets = o.sets()
	w.Observed = o.observed(w)
	w.RevertsTo = o.revertsTo(w)
	o.seeHold(&w)
	return w
}

// seeHold tells how the workload is held, and what its owner wants of a release.
func (o Object) seeHold(w *rollout.Workload) {
	kind := o.kind()
	if len(kind.fields) == 0 {
		return
	}
	w.Parked = o.parked()
	if kind.pause != nil {
		w.Paused, _, _ = unstructured.NestedBool(o.Live.Object, specPath(kind.pause)...)
		w.OwnerPaused = w.Paused
	}
	if f, ok := kind.field("paused"); ok {
		w.OwnerPaused = o.owners(f) == "true"
	}
	still := false
	if f, ok := kind.field("type"); ok {
		w.OnDelete = o.owners(f) == onDelete
		still = f.text(o.Live) == onDelete
	}
	if f, ok := kind.field("partition"); ok {
		w.Partition = amount(f.text(o.Live))
		w.OwnerKeeps = keeps(amount(o.owners(f)), w.Replicas)
		still = keepsAll(w.Partition, o.told())
	}
	w.Paused = w.Paused || w.Held && still
	o.seeWidened(w)
}

// sets are the revisions that exist, and in front of them what only pods tell of.
func (o Object) sets() []rollout.ReplicaSet {
	kind, ordered := o.kind(), o.ordered()
	first, _, _ := unstructured.NestedInt64(o.Live.Object, "spec", "ordinals", "start")
	free := o.reserved()
	pods := map[string]rollout.ReplicaSet{}
	for _, pod := range o.pods() {
		set := pods[pod.Labels[kind.HashLabel]]
		set.Replicas++
		if ordered {
			set.Places = append(set.Places, place(ordinal(pod.Name), first, free))
		}
		if ready(pod) {
			set.Ready++
		}
		pods[pod.Labels[kind.HashLabel]] = set
	}
	var sets []rollout.ReplicaSet
	updating := o.updating()
	for _, r := range o.revisions() {
		hash := kind.hashOf(r.Name)
		set := pods[hash]
		slices.Sort(set.Places)
		delete(pods, hash)
		set.Hash, set.Revision, set.Parked = hash, revisionIn(r), true
		if told, known, _ := unstructured.NestedInt64(o.Live.Object, "status", "updatedReadyReplicas"); known && hash == updating {
			set.Ready = min(set.Ready, int32(told)) // a kind whose pods may be updated in place tells it
		}
		sets = append(sets, set)
	}
	var unknown []rollout.ReplicaSet
	for _, hash := range slices.Sorted(maps.Keys(pods)) {
		set := pods[hash]
		slices.Sort(set.Places)
		set.Hash, set.Parked = hash, true
		if hash == updating {
			set.Revision = Revision(o.template())
		}
		unknown = append(unknown, set)
	}
	return append(unknown, sets...)
}

// updating is how its controller labels the pods of the template, "" where it does not tell. It does so even before it has a ControllerRevision
// of its own: that of a workload deleted before may still have the name.
func (o Object) updating() string {
	if seen, _, _ := unstructured.NestedInt64(o.Live.Object, "status", "observedGeneration"); seen < o.Live.GetGeneration() {
		return ""
	}
	if name, _, _ := unstructured.NestedString(o.Live.Object, "status", "updateRevision"); name != "" {
		return o.kind().hashOf(name)
	}
	hash, _, _ := unstructured.NestedString(o.Live.Object, "status", "daemonSetHash") // of an Advanced DaemonSet
	return hash
}

// span is a range of ordinals, both ends in it.
type span struct{ from, to int64 }

// reserved are the ordinals that its owner keeps free, lowest first: numbers, and ranges such as "3-5". An Advanced StatefulSet may have some.
func (o Object) reserved() []span {
	var free []span
	list, _, _ := unstructured.NestedFieldNoCopy(o.Live.Object, "spec", "reserveOrdinals")
	all, _ := list.([]any)
	for _, one := range all {
		from, to, ranges := strings.Cut(fmt.Sprint(one), "-")
		if !ranges {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 32)
		last, also := strconv.ParseInt(to, 10, 32)
		if err == nil && also == nil {
			free = append(free, span{first, last})
		}
	}
	slices.SortFunc(free, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return free
}

// place is that of an ordinal among those that pods may have, counted from the first one; a partition counts them so. One that pods may not
// have comes after all of them: such a pod is about to go.
func place(ordinal, first int64, free []span) int32 {
	n, next := ordinal-first, first
	for _, s := range free {
		if s.from <= ordinal && ordinal <= s.to {
			n = math.MaxInt32
			break
		}
		if from, to := max(s.from, next), min(s.to, ordinal-1); from <= to {
			n, next = n-(to-from+1), to+1
		}
	}
	return int32(min(n, math.MaxInt32-1))
}

// ordered reports whether its partition is the place of the first pod to be replaced. An Advanced StatefulSet may have an order of its own.
func (o Object) ordered() bool {
	kind := o.kind()
	_, unordered, _ := unstructured.NestedFieldNoCopy(o.Live.Object, specPath(rollingPath("unorderedUpdate"))...)
	return kind.ordinals && !unordered
}

// ConditionUpdatedInPlace is a readiness gate of pods that OpenKruise updates in place. OpenKruise sets it to False before it gives the pod the label of
// the new revision, and to True when the containers run the new images. The kubelet sets the condition Ready later.
// Source: https://openkruise.io/docs/core-concepts/inplace-update.
const ConditionUpdatedInPlace corev1.PodConditionType = "InPlaceUpdateReady"

// ready reports whether a pod serves in the version that its labels name.
func ready(pod *corev1.Pod) bool {
	serves := false
	for _, condition := range pod.Status.Conditions {
		switch condition.Type {
		case corev1.PodReady:
			serves = condition.Status == corev1.ConditionTrue
		case ConditionUpdatedInPlace:
			if condition.Status != corev1.ConditionTrue {
				return false
			}
		}
	}
	return serves
}

// observed reports whether its controller has seen its spec, and has a revision of the template to show for it.
func (o Object) observed(w rollout.Workload) bool {
	seen, _, _ := unstructured.NestedInt64(o.Live.Object, "status", "observedGeneration")
	return seen >= w.Generation && (w.Replicas == 0 || slices.ContainsFunc(w.Sets, func(set rollout.ReplicaSet) bool { return set.Revision == w.Revision }))
}

// revertsTo is the hash of the revision in which a pod that is lost comes back while nothing new may come, "" for that of the template.
func (o Object) revertsTo(w rollout.Workload) string {
	kind := o.kind()
	current, _, _ := unstructured.NestedString(o.Live.Object, "status", "currentRevision")
	if !kind.reverts || current == "" {
		return ""
	}
	hash := kind.hashOf(current)
	for _, set := range w.Sets {
		if set.Hash == hash && set.Revision == w.Revision {
			return ""
		}
	}
	return hash
}

// told is how many pods its controller is to run.
func (o Object) told() int32 {
	if field := o.kind().counts.replicas; field != "" {
		return o.count(field)
	}
	n, found, err := unstructured.NestedInt64(o.Live.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return int32(n)
}

func (o Object) count(field string) int32 {
	n, _, _ := unstructured.NestedInt64(o.Live.Object, "status", field)
	return int32(n)
}

// maxUnavailable is how many pods may be missing. It is never none: whoever deletes a pod takes one away.
func (o Object) maxUnavailable(total int32) int32 {
	kind := o.kind()
	budget := field{path: kind.unavailable, standard: kind.budget}
	n := parseBudget(budget.text(o.Live))
	if n == nil {
		n = parseBudget(kind.budget)
	}
	return min(total, max(1, scaled(n, total, false)))
}

// parked reports whether what its owner wants of the field that holds it stands in an annotation.
func (o Object) parked() bool {
	fields := o.kind().fields
	if len(fields) == 0 {
		return false
	}
	_, remembered := o.Live.GetAnnotations()[fields[0].key()]
	return remembered
}

// taken reports whether its held fields are ours. One of the two is enough: what is ours must not be taken for its owner's.
func (o Object) taken() bool {
	_, held := o.Live.GetAnnotations()[api.AnnotationInProgressing]
	return held || o.parked()
}

// owners is the text of a field as its owner wants it. While the workload is held, what stands says nothing of that.
func (o Object) owners(f field) string {
	text, remembered := o.Live.GetAnnotations()[f.key()]
	switch {
	case o.taken() && remembered:
		return text
	case o.taken() && f.held != nil:
		return f.standard
	}
	return f.text(o.Live)
}

// amount reads a partition, none where it cannot be read.
func amount(text string) rollout.Amount {
	n, err := rollout.ParseAmount(text)
	if err != nil {
		return rollout.Amount{}
	}
	return n
}

// keeps is how many of total pods a partition leaves as they are. A share of less than all lets one pod go, as OpenKruise does.
func keeps(partition rollout.Amount, total int32) int32 {
	n := partition.Of(total)
	if partition.Percent && partition.Value < 100 && total > 1 {
		n = min(n, total-1)
	}
	return n
}

// keepsAll reports whether a partition leaves every pod as it is. One of 0 does not, even where there are no pods.
func keepsAll(partition rollout.Amount, total int32) bool {
	if partition.Percent {
		return partition.Value >= 100
	}
	return partition.Value > 0 && partition.Value >= total
}
