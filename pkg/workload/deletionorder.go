package workload

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DeletionCandidates are up to n pods of a revision, those first that are the least loss to delete: pending, then not ready, then cheap by their
// annotation pod-deletion-cost, then of the lowest ordinal, so that new pods stay where a partition puts them, or the newest.
func (o Object) DeletionCandidates(hash string, n int32) []*corev1.Pod {
	kind := o.kind()
	pods := slices.DeleteFunc(o.controlledPods(), func(pod *corev1.Pod) bool { return pod.Labels[kind.HashLabel] != hash })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		order := b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
		if kind.Ordinals {
			order = cmp.Compare(ordinalOf(a.Name), ordinalOf(b.Name))
		}
		return cmp.Or(cmp.Compare(podProgress(a), podProgress(b)), cmp.Compare(deletionCost(a), deletionCost(b)), order, cmp.Compare(a.Name, b.Name))
	})
	return pods[:min(len(pods), int(max(n, 0)))]
}

// podProgress ranks a pod by its progress: a pending pod comes first, because its deletion interrupts no work.
func podProgress(pod *corev1.Pod) int {
	switch {
	case pod.Status.Phase == corev1.PodPending:
		return 0
	case !isReady(pod):
		return 1
	}
	return 2
}

// deletionCost is 0 where none can be read, as Kubernetes has it.
func deletionCost(pod *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// ordinalOf is the number at the end of a name; names without one come last.
func ordinalOf(name string) int64 {
	n, err := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 32)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
