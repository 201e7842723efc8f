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
	"sluice.dev/sluice/pkg/workload/kinds"
)

// ObserveWorkload tells what a release of the Rollout of that name needs to know of the workload; AdoptedBy is as for the function See. Unlabelled it
// leaves out, for that is a matter of the release.
func (o Object) ObserveWorkload(rolloutName string) rollout.Workload {
	kind, template := o.kind(), o.podTemplate()
	w := observeMarks(o.Live, rolloutName, kind.Type)
	w.UpdateMechanism, w.PercentPartition, w.HasOrdinals = kind.Mechanism, kind.PercentPartition, o.hasOrdinals()
	w.Revision = TemplateRevision(template)
	w.Images, w.Containers = imagesOf(template.Spec)
	w.Version, w.HistoryLimit = fleetVersion(o.Live, template.Spec, w.Revision), defaultHistoryLimit
	if limit, found, _ := unstructured.NestedInt64(o.Live.Object, "spec", "revisionHistoryLimit"); found {
		w.HistoryLimit = int32(limit)
	}
	w.DesiredReplicas = o.desiredReplicas()
	w.Updated, w.Available, w.Total = o.statusCount(kind.Status.Updated), o.statusCount(kind.Status.Available), o.statusCount(kind.Status.Total)
	w.MaxUnavailable = o.maxUnavailable(w.DesiredReplicas)
	w.Revisions = o.observedRevisions()
	w.Observed = o.specObserved(w)
	w.RevertsTo = o.revertsTo(w)
	o.observeHold(&w)
	return w
}

// observeHold tells how the workload is held, and what its owner wants of a release.
func (o Object) observeHold(w *rollout.Workload) {
	kind := o.kind()
	if len(kind.Fields) == 0 {
		return
	}
	w.TakenOver = o.hasOriginal()
	if kind.Pause != nil {
		w.Paused, _, _ = unstructured.NestedBool(o.Live.Object, specPath(kind.Pause)...)
		w.OwnerPaused = w.Paused
	}
	if f, ok := kind.Field(kinds.FieldPaused); ok {
		w.OwnerPaused = o.ownerText(f) == "true"
	}
	still := false
	if f, ok := kind.Field(kinds.FieldType); ok {
		w.OwnerOnDelete = o.ownerText(f) == kinds.OnDelete
		still = f.Text(o.Live) == kinds.OnDelete
	}
	if f, ok := kind.Field(kinds.FieldPartition); ok {
		w.Partition = parsePartition(f.Text(o.Live))
		w.OwnerPartition = podsKept(parsePartition(o.ownerText(f)), w.DesiredReplicas)
		still = keepsAll(w.Partition, o.targetReplicas())
	}
	w.Paused = w.Paused || w.Held && still
	o.observeSurge(w)
}

// observedRevisions are the existing revisions, after the revisions that only pods show.
func (o Object) observedRevisions() []rollout.Revision {
	kind, ordered := o.kind(), o.hasOrdinals()
	first, _, _ := unstructured.NestedInt64(o.Live.Object, "spec", "ordinals", "start")
	free := o.reservedOrdinals()
	pods := map[string]rollout.Revision{}
	for _, pod := range o.controlledPods() {
		set := pods[pod.Labels[kind.HashLabel]]
		set.Replicas++
		if ordered {
			set.Ordinals = append(set.Ordinals, ordinalIndex(ordinalOf(pod.Name), first, free))
		}
		if isReady(pod) {
			set.Ready++
		}
		pods[pod.Labels[kind.HashLabel]] = set
	}
	var sets []rollout.Revision
	updating := o.updateRevisionHash()
	for _, r := range o.controlledRevisions() {
		hash := kind.hashOf(r.Name)
		set := pods[hash]
		slices.Sort(set.Ordinals)
		delete(pods, hash)
		set.Hash, set.Revision, set.Unavailable = hash, revisionIn(r), true
		if told, known, _ := unstructured.NestedInt64(o.Live.Object, "status", kind.Status.UpdatedReady); known && hash == updating {
			set.Ready = min(set.Ready, int32(told)) // a kind whose pods may be updated in place tells it
		}
		sets = append(sets, set)
	}
	var unknown []rollout.Revision
	for _, hash := range slices.Sorted(maps.Keys(pods)) {
		set := pods[hash]
		slices.Sort(set.Ordinals)
		set.Hash, set.Unavailable = hash, true
		if hash == updating {
			set.Revision = TemplateRevision(o.podTemplate())
		}
		unknown = append(unknown, set)
	}
	return append(unknown, sets...)
}

// updateRevisionHash is the label of the pods of the template, "" if the controller does not publish it. The controller publishes it even before the
// template has its own ControllerRevision, because a ControllerRevision of a deleted workload may have the name.
func (o Object) updateRevisionHash() string {
	if seen, _, _ := unstructured.NestedInt64(o.Live.Object, "status", "observedGeneration"); seen < o.Live.GetGeneration() {
		return ""
	}
	if name, _, _ := unstructured.NestedString(o.Live.Object, "status", "updateRevision"); name != "" {
		return o.kind().hashOf(name)
	}
	hash, _, _ := unstructured.NestedString(o.Live.Object, "status", "daemonSetHash") // of an Advanced DaemonSet
	return hash
}

// ordinalRange is a range of ordinals, both ends in it.
type ordinalRange struct{ from, to int64 }

// reservedOrdinals are the ordinals that its owner keeps free, lowest first: numbers, and ranges such as "3-5". An Advanced StatefulSet may have some.
func (o Object) reservedOrdinals() []ordinalRange {
	var free []ordinalRange
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
			free = append(free, ordinalRange{first, last})
		}
	}
	slices.SortFunc(free, func(a, b ordinalRange) int { return cmp.Compare(a.from, b.from) })
	return free
}

// ordinalIndex returns the position of an ordinal among the allowed ordinals, counted from the first one; a partition counts the same way. An
// ordinal that is not allowed comes after all others: the controller is about to delete such a pod.
func ordinalIndex(ordinal, first int64, free []ordinalRange) int32 {
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

// hasOrdinals reports whether its partition is the place of the first pod to be replaced. An Advanced StatefulSet may have an order of its own.
func (o Object) hasOrdinals() bool {
	kind := o.kind()
	_, unordered, _ := unstructured.NestedFieldNoCopy(o.Live.Object, "spec", "updateStrategy", "rollingUpdate", "unorderedUpdate")
	return kind.Ordinals && !unordered
}

// ConditionUpdatedInPlace is a readiness gate of pods that OpenKruise updates in place. OpenKruise sets it to False before it gives the pod the label of
// the new revision, and to True when the containers run the new images. The kubelet sets the condition Ready later.
// Source: https://openkruise.io/docs/core-concepts/inplace-update.
const ConditionUpdatedInPlace corev1.PodConditionType = "InPlaceUpdateReady"

// isReady reports whether a pod serves in the version that its labels name.
func isReady(pod *corev1.Pod) bool {
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

// specObserved reports whether its controller has seen its spec, and has a revision of the template to show for it.
func (o Object) specObserved(w rollout.Workload) bool {
	seen, _, _ := unstructured.NestedInt64(o.Live.Object, "status", "observedGeneration")
	return seen >= w.Generation && (w.DesiredReplicas == 0 || slices.ContainsFunc(w.Revisions, func(set rollout.Revision) bool { return set.Revision == w.Revision }))
}

// revertsTo is the hash of the revision that replaces a lost pod while the workload is held, "" for the revision of the template.
func (o Object) revertsTo(w rollout.Workload) string {
	kind := o.kind()
	current, _, _ := unstructured.NestedString(o.Live.Object, "status", "currentRevision")
	if !kind.Reverts || current == "" {
		return ""
	}
	hash := kind.hashOf(current)
	for _, set := range w.Revisions {
		if set.Hash == hash && set.Revision == w.Revision {
			return ""
		}
	}
	return hash
}

// targetReplicas is how many pods its controller is to run.
func (o Object) targetReplicas() int32 {
	if field := o.kind().Status.Wanted; field != "" {
		return o.statusCount(field)
	}
	n, found, err := unstructured.NestedInt64(o.Live.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return int32(n)
}

func (o Object) statusCount(field string) int32 {
	n, _, _ := unstructured.NestedInt64(o.Live.Object, "status", field)
	return int32(n)
}

// maxUnavailable is the number of pods that may be missing. It is at least 1, because each deletion of a pod removes one.
func (o Object) maxUnavailable(total int32) int32 {
	kind := o.kind()
	n := parseBudget(kind.Unavailable.Text(o.Live))
	if n == nil {
		n = parseBudget(kind.Unavailable.Default)
	}
	return min(total, max(1, scaledValue(n, total, false)))
}

// hasOriginal reports whether what its owner wants of the field that holds it stands in an annotation.
func (o Object) hasOriginal() bool {
	kind := o.kind()
	if len(kind.Fields) == 0 {
		return false
	}
	_, remembered := o.Live.GetAnnotations()[kind.HoldingField().AnnotationKey()]
	return remembered
}

// isTakenOver reports whether the release has set the held fields. One of the two fields suffices: a value of the release must not count as the
// owner's.
func (o Object) isTakenOver() bool {
	_, held := o.Live.GetAnnotations()[api.AnnotationInProgressing]
	return held || o.hasOriginal()
}

// ownerText is the text of a field as its owner wants it. While the workload is held, what stands says nothing of that.
func (o Object) ownerText(f kinds.Field) string {
	text, remembered := o.Live.GetAnnotations()[f.AnnotationKey()]
	switch {
	case o.isTakenOver() && remembered:
		return text
	case o.isTakenOver() && f.Held != nil:
		return f.Default
	}
	return f.Text(o.Live)
}

// parsePartition reads a partition, none where it cannot be read.
func parsePartition(text string) rollout.Amount {
	n, err := rollout.ParseAmount(text)
	if err != nil {
		return rollout.Amount{}
	}
	return n
}

// podsKept is how many of total pods a partition leaves as they are. A share of less than all lets one pod go, as OpenKruise does.
func podsKept(partition rollout.Amount, total int32) int32 {
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
